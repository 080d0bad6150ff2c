//! Permission matrix: every operation is tried with every credential that does not permit it. All are
//! refused, and a refusal does not reveal whether the object exists.
//!
//! The operations come from the code: the routes of the routers, the frames and actions of an agent's
//! socket, and the commands of the command line. An operation without a row here fails these tests. `doors` says how
//! to add one.

mod actors;
mod admin;
mod agent_socket;
mod clock;
mod commands;
mod data;
mod doors;
mod edge;
mod identity;
mod pressed_button;
mod proxy;
mod relay;
mod runs;
mod shared_bot;
mod skills;
mod sleep;
mod tools;
mod v1;
mod web;

use std::collections::BTreeMap;

use actors::Actors;
pub use actors::{basic, gateway_token};

/// A name in two forms of equal length: one that exists and belongs to somebody, and one that does not
/// exist.
#[derive(Clone)]
struct Name {
    there: String,
    absent: String,
}

impl Name {
    fn new(there: &str, absent: &str) -> Self {
        assert_eq!(there.len(), absent.len(), "or the length of an answer would tell them apart");
        Self { there: there.to_owned(), absent: absent.to_owned() }
    }

    /// An id, and one of its kind that nobody was given.
    fn of_id(there: &str) -> Self {
        let (kept, end) = there.split_at(there.len() - 4);
        let absent = if end == "0000" { "1111" } else { "0000" };
        Self::new(there, &format!("{kept}{absent}"))
    }

    /// What was asked for, by one of its two forms.
    fn form(&self, is_there: bool) -> &str {
        if is_there { &self.there } else { &self.absent }
    }

    /// An answer without the name that was asked for.
    fn without(&self, is_there: bool, answer: &str) -> String {
        answer.replace(self.form(is_there), "(the name asked for)")
    }
}

/// Result of every cell.
#[derive(Default)]
struct Cells {
    count: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

impl Cells {
    /// Tries one operation with one wrong credential: it must be refused as if the object did not exist.
    fn cell(&mut self, table: &'static str, what: &str, refused: bool, there: &str, absent: &str) {
        *self.count.entry(table).or_default() += 1;
        if !refused {
            self.wrong.push(format!("{what} is not refused: {there}"));
        } else if there != absent {
            self.wrong.push(format!("{what} tells:\n  {there}\n  {absent}"));
        }
    }

    fn all_are_right(self) {
        assert!(self.wrong.is_empty(), "{} cells are wrong:\n{}", self.wrong.len(), self.wrong.join("\n"));
        println!("{} cells: {:?}", self.count.values().sum::<usize>(), self.count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_somebody_elses_is_refused_at_the_post_as_if_it_were_not_there() {
    let mut actors = Actors::gather().await;
    let mut cells = Cells::default();
    v1::fill(&actors, &mut cells).await;
    cells.all_are_right();
    actors.is_undisturbed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_skill_of_another_tenant_is_there_and_no_agent_approves_or_deletes() {
    let mut actors = Actors::gather().await;
    let mut cells = Cells::default();
    skills::fill(&actors, &mut cells).await;
    data::fill(&actors, &mut cells).await;
    runs::fill(&actors, &mut cells).await;
    cells.all_are_right();
    actors.is_undisturbed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_skills_of_a_tenant_reach_no_skill_file_or_model_of_another() {
    crate::talk::provide_crypto();
    let mut cells = Cells::default();
    runs::reach(&mut cells).await;
    cells.all_are_right();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_does_for_the_wrong_owner_what_it_does_for_the_right_one() {
    let mut actors = Actors::gather().await;
    let mut cells = Cells::default();
    tools::fill(&actors, &mut cells).await;
    cells.all_are_right();
    actors.is_undisturbed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_somebody_elses_is_refused_at_every_other_door_as_if_it_were_not_there() {
    let mut actors = Actors::gather().await;
    let mut cells = Cells::default();
    relay::fill(&mut actors, &mut cells).await;
    clock::fill(&actors, &mut cells).await;
    identity::fill(&actors, &mut cells).await;
    edge::fill(&mut actors, &mut cells).await;
    web::fill(&mut actors, &mut cells).await;
    cells.all_are_right();
    actors.is_undisturbed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_owner_vouches_with_its_own_bot_for_somebody_elses_person_on_a_shared_one() {
    let mut actors = Actors::gather().await;
    let mut cells = Cells::default();
    shared_bot::vouch(&mut actors, &mut cells).await;
    cells.all_are_right();
    actors.still_shares_a_bot().await;
    actors.is_undisturbed().await;
}

/// A list of operations that no table reads would let its operations pass without a row.
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_that_the_server_describes_is_in_a_list_that_a_table_reads() {
    crate::talk::provide_crypto();
    let server = crate::test_server::TestServer::open(&[("POSTHOUSE_PLATFORMS__WEB__PAGE", "true")]);
    let document = reqwest::get(format!("{}/openapi.json", server.url)).await.unwrap().text().await.unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let lists = [
        ::relay::OPERATIONS,
        ::clock::OPERATIONS,
        ::identity::OPERATIONS,
        ::edge::OPERATIONS,
        ::edge::web::OPERATIONS,
        post::OPERATIONS,
        workshop::OPERATIONS,
        workshop::DATA_OPERATIONS,
        workshop::TOOL_OPERATIONS,
        workshop::RUN_OPERATIONS,
        console::OPERATIONS,
    ];
    // The server's own, which name nothing.
    let own = ["/healthz", "/readyz", "/metrics", "/openapi.json"];
    let mut missing = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
            let is_listed = lists.concat().iter().any(|known| known.method == method && known.path == path);
            if !is_listed && !own.contains(&path.as_str()) {
                missing.push(format!("{method} {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "add a table to crates/posthouse/tests/it/matrix.rs for: {missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_an_agent_says_in_anothers_conversation_is_refused_as_if_there_were_none() {
    let mut actors = Actors::gather().await;
    let mut cells = Cells::default();
    agent_socket::fill(&mut actors, &mut cells).await;
    cells.all_are_right();
    actors.is_undisturbed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_stopped_with_its_own_sleep_token_and_with_nothing_else() {
    let mut cells = Cells::default();
    sleep::fill(&mut cells).await;
    cells.all_are_right();
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_the_operators_is_refused_to_everybody_else_whether_it_is_there_or_not() {
    let mut actors = Actors::gather().await;
    let mut cells = Cells::default();
    admin::fill(&actors, &mut cells).await;
    cells.all_are_right();
    actors.is_undisturbed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_does_for_the_wrong_owner_what_it_does_for_the_right_one() {
    let mut actors = Actors::gather().await;
    let mut cells = Cells::default();
    commands::fill(&actors, &mut cells);
    cells.all_are_right();
    actors.is_undisturbed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_a_neighbours_question_is_as_free_as_one_that_nobody_uses() {
    let actors = Actors::gather().await;
    v1::taken_correlation(&actors).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_ids_in_two_tenants_are_two_things() {
    let actors = Actors::gather().await;
    v1::namesakes(&actors).await;
}
