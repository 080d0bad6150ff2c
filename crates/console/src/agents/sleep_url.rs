//! Admin API: the stop URL of an agent, and the URL at which the agent asks to be stopped.

use posthouse_wire::InstanceId;

use crate::problem::AdminProblem;
use crate::routes::Parts;

impl Parts {
    /// Sets or removes the stop URL of an agent. Returns its new sleep URL, if there is one.
    pub(super) async fn change_stop_url(
        &self,
        of: &InstanceId,
        url: Option<&str>,
    ) -> Result<Option<String>, AdminProblem> {
        self.identity.sleep_urls.set_stop_url(of, url).await?;
        self.new_sleep_url(of).await
    }

    /// A new sleep URL for an agent that has a stop URL. Stock agents ask over https only.
    pub(super) async fn new_sleep_url(&self, of: &InstanceId) -> Result<Option<String>, AdminProblem> {
        if !self.public_url.starts_with("https://") || self.identity.sleep_urls.stop_url(of).await?.is_none()
        {
            return Ok(None);
        }
        let token = self.identity.sleep_urls.make_token(of).await?;
        Ok(token.map(|token| format!("{}/relay/sleep?t={}", self.public_url, token.expose())))
    }
}
