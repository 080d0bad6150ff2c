//! Integration tests of the whole server: borders, command line, HTTP.

// Actors unwrap too: a failure there is a failed test.
#![allow(clippy::unwrap_used)]

mod agent_doors;
mod arrows;
mod bad_input;
mod bad_input_data;
mod bad_input_post;
mod bad_input_relay;
mod bad_input_skills;
mod bodies;
mod canaries;
mod canaries_post;
mod canaries_sleep;
mod canaries_stores;
mod closing;
mod connections;
mod crash;
mod cron;
mod cron_doors;
mod discord;
mod doors;
mod feishu;
mod fire_tokens;
mod fuzz;
mod issuer_tokens;
mod key_permissions;
mod matrix;
mod matrix_rooms;
mod message_chain;
mod post_cli;
mod post_reading;
mod receiver;
mod relay_doors;
mod remote_store_cli;
mod sdk_conversation;
mod security_guide;
mod shared_bot;
mod skill_author_cli;
mod skill_cli;
mod skill_runs;
mod slack;
mod storage;
mod story;
mod strangers;
mod talk;
mod test_server;
mod tokens;
mod tokens_doors;
mod tools;
mod type_names;
mod unfinished_messages;
mod upgrade;
mod webhooks;
mod wecom;
mod whatsapp;
