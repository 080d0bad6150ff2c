//! Downloads of attachments from platforms, with time limits.

use std::time::Duration;

use http::HeaderMap;
use relay::{MediaWriter, NotFetched};

use super::PlatformClient;

/// Time limit for the response and for each piece. The caller limits the whole.
const PIECE_WITHIN: Duration = Duration::from_secs(15);

impl PlatformClient {
    /// Downloads one file. The URL may contain a credential, so no error of the HTTP client is printed.
    pub async fn download(
        &self,
        request: reqwest::RequestBuilder,
        into: &mut MediaWriter,
    ) -> Result<(), NotFetched> {
        self.download_if(request, |_| true, into).await
    }

    /// As [`PlatformClient::download`], if the headers of the response are accepted. Some platforms answer a request
    /// without permission with a page instead of an error.
    pub async fn download_if(
        &self,
        request: reqwest::RequestBuilder,
        accepts: impl FnOnce(&HeaderMap) -> bool,
        into: &mut MediaWriter,
    ) -> Result<(), NotFetched> {
        let no_answer = |_| NotFetched::NoAnswer;
        let sent = self.timepiece.within(PIECE_WITHIN, request.send()).await;
        let mut response = sent.map_err(|_| NotFetched::NoAnswer)?.map_err(no_answer)?;
        match response.status().as_u16() {
            200 => {}
            403 | 404 | 410 => return Err(NotFetched::Gone),
            _ => return Err(NotFetched::NoAnswer),
        }
        if !accepts(response.headers()) {
            return Err(NotFetched::Gone);
        }
        loop {
            let piece = self.timepiece.within(PIECE_WITHIN, response.chunk()).await;
            match piece.map_err(|_| NotFetched::NoAnswer)?.map_err(no_answer)? {
                Some(piece) => into.write(piece).await?,
                None => return Ok(()),
            }
        }
    }
}
