//! Tests of who may write to whom, and of what a chat is.

use super::*;

#[test]
fn an_agent_writes_to_its_peers_only_where_its_tenant_allows_it() {
    let (heron, egret) = (InstanceId::from("inst_heron"), InstanceId::from("inst_egret"));
    assert!(may_write_to_peer(None, Some(&heron), false), "a program of the tenant");
    assert!(may_write_to_peer(Some(&heron), Some(&heron), false), "itself");
    assert!(!may_write_to_peer(Some(&heron), Some(&egret), false));
    assert!(!may_write_to_peer(Some(&heron), None, false), "somebody behind a connector");
    assert!(may_write_to_peer(Some(&heron), Some(&egret), true));
}

#[test]
fn groups_threads_forums_and_rooms_have_several_people_and_a_channel_or_a_direct_chat_has_not() {
    let is_group =
        |chat_type: &str| is_group_chat(&Source { chat_type: chat_type.to_owned(), ..Source::default() });
    assert!(["group", "thread", "forum", "room"].into_iter().all(is_group));
    assert!(!["dm", "channel", ""].into_iter().any(is_group));
}
