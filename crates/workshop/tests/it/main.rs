//! Behaviour of the skill stores: one suite over all of them, and recorded vectors.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod approval;
mod catalogue;
mod catalogue_walk;
mod conformance;
mod connectors_vectors;
mod contract_files;
mod custom_stores;
mod data_conformance;
mod data_routes;
mod data_store_vectors;
mod data_stores;
mod endpoints;
mod filesystem;
mod fixtures;
mod foreign_store;
mod header_rewrite_vectors;
mod ledger_store;
mod privileges;
mod recorded;
mod remote_data;
mod remote_stores;
mod run_ends;
mod run_metrics;
mod run_queue;
mod running;
mod skill_server;
mod skills;
mod sqlite;
mod store_vectors;
mod tenants;
mod trigger_alarms;
mod triggers;
mod version_token_vectors;
