//! Order of entries across the switch from the ledger to live delivery (section 16.3, item 2).

use std::time::Duration;

use crate::test_server::{Agent, PATIENCE, TestServer, eventually, seconds};

/// Hears so many messages and takes each; every one comes once and in the order in which it was kept.
async fn takes_all(agent: &Agent, window: u16, count: usize) -> Vec<String> {
    let mut gateway = agent.sits_with_window(window).await;
    let mut entries = Vec::new();
    while entries.len() < count {
        let (_, entry) = gateway.hears_inbound().await;
        gateway.acknowledges(&entry).await;
        entries.push(entry);
    }
    agent.has_unread(0).await;
    gateway.hears_nothing().await;
    entries
}

/// In order of commit, which the traces of the entries do not tell but their seq does.
async fn kept_in_order(
    agent: &Agent,
    writers: usize,
    each: usize,
) -> Vec<tokio::task::JoinHandle<Vec<String>>> {
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let agent = agent.clone();
        tasks.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            for number in 0..each {
                let chat = format!("c{writer}");
                let entry = agent.server.says(&agent.bots[0], &chat, &format!("{writer}-{number}")).await;
                ids.push(entry.as_str().to_owned());
            }
            ids
        }));
    }
    tasks
}

async fn check(window: u16, backlog: usize, writers: usize, each: usize) {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut before = Vec::new();
    for number in 0..backlog {
        before.push(heron.hears_from(&format!("old-{number}")).await.as_str().to_owned());
    }
    let writing = kept_in_order(&heron, writers, each).await;
    let heard = takes_all(&heron, window, backlog + writers * each).await;
    assert_eq!(heard[..backlog], before[..]);
    let mut unique = heard.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), heard.len(), "an entry came twice");
    for task in writing {
        // What one writer kept one after the other came in that order.
        let kept = task.await.unwrap();
        let places: Vec<usize> = kept
            .iter()
            .map(|id| heard.iter().position(|heard| heard == id).expect("an entry is lost"))
            .collect();
        assert!(places.is_sorted());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_under_concurrent_appends_keeps_order_without_loss_or_repeat() {
    check(32, 300, 8, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_one_by_one_under_concurrent_appends_keeps_order_too() {
    check(1, 20, 4, 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_kept_while_live_is_heard_out_of_order_by_many_agents() {
    let server = TestServer::open().await;
    let mut tasks = Vec::new();
    for agent in 0..4 {
        let on = crate::test_server::bot("telegram", &agent.to_string());
        let agent = server.enrol("acme", &format!("agent{agent}"), &[on]).await;
        tasks.push(tokio::spawn(async move {
            let mut gateway = agent.sits_with_window(8).await;
            for number in 0..100 {
                agent.hears_from(&number.to_string()).await;
            }
            for number in 0..100 {
                gateway.takes(&number.to_string()).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn more_than_the_tail_holds_is_read_from_the_ledger_in_order() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits_settled().await;
    for number in 0..1_400 {
        heron.hears_from(&number.to_string()).await;
    }
    for number in 0..1_400 {
        gateway.takes(&number.to_string()).await;
    }
    heron.has_unread(0).await;
    gateway.hears_nothing().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_that_replace_one_another_under_load_lose_nothing() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let writing = kept_in_order(&heron, 2, 200).await;
    let mut taken: Vec<String> = Vec::new();
    let mut standbys = Vec::new();
    for round in 0..12 {
        let mut gateway = heron.sits_with_window(4).await;
        for _ in 0..20 {
            // Whoever left without taking anything would set back what it was given, again and again.
            if heron.unread().await == 0 {
                break;
            }
            let (_, entry) = gateway.hears_inbound().await;
            gateway.acknowledges(&entry).await;
            taken.push(entry);
        }
        match round % 3 {
            0 => gateway.dies(),
            1 => standbys.push(gateway),
            _ => gateway.says_goodbye().await,
        }
    }
    drop(standbys);
    let mut kept = Vec::new();
    for task in writing {
        kept.extend(task.await.unwrap());
    }
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    let mut last = heron.sits_with_window(16).await;
    let draining = async {
        while heron.unread().await > 0 {
            // What was acknowledged last may still count as unread, and nothing more comes.
            let heard = tokio::time::timeout(Duration::from_millis(200), last.hears_inbound()).await;
            if let Ok((_, entry)) = heard {
                last.acknowledges(&entry).await;
                taken.push(entry);
            }
        }
    };
    tokio::time::timeout(PATIENCE, draining).await.expect("the inbox is not drained");
    kept.retain(|entry| !taken.contains(entry));
    assert_eq!(kept, Vec::<String>::new());
    assert!(heron.dead_letters().await.is_empty());
}

#[tokio::test]
async fn what_came_before_during_and_after_a_pause_of_the_agent_stays_in_order() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut number = 0;
    let mut expected = 0;
    for _ in 0..5 {
        for _ in 0..3 {
            heron.hears_from(&number.to_string()).await;
            number += 1;
        }
        let mut gateway = heron.sits().await;
        heron.hears_from(&number.to_string()).await;
        number += 1;
        server.winds(seconds(4));
        while expected < number {
            gateway.takes(&expected.to_string()).await;
            expected += 1;
        }
        heron.has_unread(0).await;
        gateway.says_goodbye().await;
        eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    }
}
