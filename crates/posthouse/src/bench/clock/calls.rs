//! Arm requests over HTTP, one keep-alive connection per agent.

use posthouse_time::Moment;
use posthouse_wire::cron::FireAt;

use super::super::poster::{PLACE, Poster};
use super::super::server::ServerProcess;
use super::fixtures::ClockAgent;

/// Callback URL of jobs that never fire during a measurement.
pub const CALLBACK: &str = "https://heron.agents.example";
/// Their due time from now, in microseconds.
const AHEAD_US: i64 = 600_000_000;

/// Arms a new job with each post, all due in ten minutes.
pub async fn caller(server: &ServerProcess, agent: &ClockAgent, now: Moment) -> anyhow::Result<Poster> {
    let address = server.address()?;
    let due_us = now.millis() * 1000 + AHEAD_US;
    Poster::open(address, request(address, agent, &format!("job-{PLACE}"), due_us)).await
}

/// An arm request as a stock agent sends it.
pub fn request(address: &str, agent: &ClockAgent, job: &str, due_us: i64) -> String {
    let fire_at = FireAt::from_micros(due_us);
    let body = format!(
        "{{\"job_id\":\"{job}\",\"fire_at\":\"{fire_at}\",\"agent_callback_url\":\"{CALLBACK}\",\
         \"dedup_key\":\"{job}:{fire_at}\"}}"
    );
    format!(
        "POST /api/agent-cron/provision HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
        agent.access.expose(),
        body.len()
    )
}
