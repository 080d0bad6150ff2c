//! Jobs of agents, as the operator sees them.

use ledger::FireAttempt;
use posthouse_wire::InstanceId;
use posthouse_wire::cron::FireAt;

use crate::house::House;

#[tokio::test]
async fn the_operator_sees_why_a_fire_failed() {
    let (house, heron) = House::settled().await;
    let instance = InstanceId::from(heron["instance_id"].as_str().unwrap());
    let private = errand::Fault::from(errand::UrlRefusal::Address([10, 0, 0, 7].into())).to_string();
    let unresolved = errand::Fault::Unresolved.to_string();
    let fire_at = FireAt::from_micros(0);
    for (job, error) in [("inside", &private), ("nowhere", &unresolved)] {
        let attempt = FireAttempt { error: Some(error.clone()), ..FireAttempt::default() };
        let now = house.timepiece.now();
        house.ledger.arms().note_fire(&instance, &job.into(), &fire_at, attempt, now).await.unwrap();
    }
    for (job, error) in [("inside", private), ("nowhere", unresolved)] {
        let history = house.gets(&format!("/admin/jobs/history?agent=heron&tenant=acme&job={job}")).await;
        assert_eq!(history["items"][0]["error"], error, "{history}");
    }
}
