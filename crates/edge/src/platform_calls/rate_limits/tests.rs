//! Tests of rate limits and of the turns of tenants.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use posthouse_time::Moment;

use super::*;

/// A call of the server itself.
async fn take(limits: &PlatformRateLimits, names: &[&str], left: Duration) -> Result<(), CallFailure> {
    limits.take(CallShare { bot: &"7001".into(), of: &None }, names, left).await
}

/// A call of a tenant that waits as long as it may.
fn call_of<'a>(
    limits: &'a PlatformRateLimits,
    tenant: &str,
    names: &'a [&'a str],
) -> BoxFuture<'a, Result<(), CallFailure>> {
    let of: ShareOwner = Some(tenant.into());
    async move { limits.take(CallShare { bot: &"7001".into(), of: &of }, names, LONGEST_WAIT).await }.boxed()
}

/// Removes the calls that were made, and returns their number.
fn made(calls: &mut Vec<BoxFuture<'_, Result<(), CallFailure>>>) -> usize {
    let before = calls.len();
    // One of the calls gives the turns of all, so that the others are looked at again.
    for _ in 0..2 {
        calls.retain_mut(|call| match call.as_mut().now_or_never() {
            None => true,
            Some(result) => {
                assert_eq!(result, Ok(()));
                false
            }
        });
    }
    before - calls.len()
}

#[tokio::test]
async fn a_tenant_that_floods_a_bot_cannot_take_the_share_of_another() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock.clone());
    limits.set_limit("global", 10, Duration::from_secs(1));
    let mut flood: Vec<_> = (0..110).map(|_| call_of(&limits, "ten_flood", &["global", "chat 1"])).collect();
    assert_eq!(made(&mut flood), 10);
    let mut quiet: Vec<_> = (0..7).map(|_| call_of(&limits, "ten_quiet", &["global", "chat 2"])).collect();
    assert_eq!(made(&mut quiet), 0, "this second is used up");
    for (of_flood, of_quiet) in [(5, 5), (8, 2), (10, 0)] {
        clock.wind(Duration::from_secs(1));
        let (flooded, other) = (made(&mut flood), made(&mut quiet));
        let flooded = flooded + made(&mut flood);
        assert_eq!((flooded, other), (of_flood, of_quiet));
    }
}

#[test]
fn a_pause_is_remembered_as_long_as_the_platform_announced() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let (limits, days) = (PlatformRateLimits::new(clock.clone()), Duration::from_secs(3 * 24 * 3600));
    limits.set_limit("7001", 10, Duration::from_secs(1));
    limits.learn("7001", 0, days);
    let bucket = limits.buckets.get("7001").unwrap();
    let keep = KeepPauses(clock.clone());
    assert_eq!(keep.kept_for(&bucket), days);
    clock.wind(days);
    assert_eq!(keep.kept_for(&bucket), FORGET_AFTER);
}

#[tokio::test]
async fn a_call_whose_own_bucket_is_empty_holds_up_no_other_call_of_the_bot() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock.clone());
    limits.set_limit("global", 10, Duration::from_secs(1));
    limits.learn("full", 0, Duration::from_secs(9));
    let mut blocked = vec![call_of(&limits, "ten_1", &["global", "full"])];
    assert_eq!(made(&mut blocked), 0);
    for tenant in ["ten_1", "ten_2"] {
        assert_eq!(made(&mut vec![call_of(&limits, tenant, &["global", "other"])]), 1, "{tenant}");
    }
    clock.wind(Duration::from_secs(9));
    assert_eq!(made(&mut blocked), 1);
}

#[tokio::test]
async fn when_the_call_that_gives_the_turns_leaves_another_takes_over() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock.clone());
    limits.set_limit("global", 1, Duration::from_secs(1));
    let mut calls: Vec<_> = (0..3).map(|_| call_of(&limits, "ten_1", &["global"])).collect();
    assert_eq!(made(&mut calls), 1);
    drop(calls.remove(0));
    clock.wind(Duration::from_secs(1));
    assert_eq!(made(&mut calls), 1);
}

#[tokio::test]
async fn waiting_calls_are_bounded_and_a_flood_leaves_places_to_others() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock);
    limits.set_limit("global", 0, Duration::from_secs(1));
    let mut flood: Vec<_> = (0..2_000).map(|_| call_of(&limits, "ten_flood", &["global"])).collect();
    assert_eq!(made(&mut flood), 0);
    let refused = call_of(&limits, "ten_flood", &["global"]).now_or_never();
    assert!(matches!(refused, Some(Err(CallFailure::Refused(_)))), "{refused:?}");
    assert_eq!(call_of(&limits, "ten_other", &["global"]).now_or_never(), None, "it waits");
}

#[tokio::test]
async fn a_call_waits_for_an_empty_bucket_and_passes_when_it_is_filled() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock.clone());
    let names = ["7001:route"];
    assert_eq!(take(&limits, &names, LONGEST_WAIT).await, Ok(()), "nothing is known yet");
    limits.learn(names[0], 1, Duration::from_secs(5));
    assert_eq!(take(&limits, &names, LONGEST_WAIT).await, Ok(()));
    let mut waiting = std::pin::pin!(take(&limits, &names, LONGEST_WAIT));
    assert!(waiting.as_mut().now_or_never().is_none(), "it is empty");
    assert_eq!(take(&limits, &["7001:other"], LONGEST_WAIT).await, Ok(()), "others are not");
    clock.wind(Duration::from_secs(5));
    assert_eq!(waiting.await, Ok(()));
}

#[tokio::test]
async fn a_wait_beyond_the_deadline_is_a_refusal_that_names_it() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock);
    limits.learn("b", 0, Duration::from_secs(9));
    let refused = take(&limits, &["b"], Duration::from_secs(5)).await.unwrap_err();
    assert!(refused.error("Pigeon").contains("asks to wait 9 s"), "{refused:?}");
}

#[tokio::test]
async fn a_call_that_one_bucket_refuses_takes_nothing_from_the_others() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock);
    limits.set_limit("global", 2, Duration::from_secs(1));
    limits.learn("full", 0, Duration::from_secs(60));
    for _ in 0..5 {
        assert!(take(&limits, &["global", "full"], Duration::from_secs(5)).await.is_err());
    }
    for _ in 0..2 {
        assert_eq!(take(&limits, &["global", "other"], LONGEST_WAIT).now_or_never(), Some(Ok(())));
    }
    assert_eq!(take(&limits, &["global", "other"], LONGEST_WAIT).now_or_never(), None);
}

#[tokio::test]
async fn a_new_period_lets_through_as_many_waiting_calls_as_it_holds() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock.clone());
    limits.set_limit("known", 2, Duration::from_secs(1));
    limits.learn("learned", 1, Duration::from_secs(1));
    for name in ["known", "learned"] {
        let names = [name];
        while limits.try_take(&names).is_none() {}
        let mut waiting: Vec<_> = (0..5).map(|_| call_of(&limits, "ten_1", &names)).collect();
        assert_eq!(made(&mut waiting), 0, "{name}");
        for expected in [2, 2, 1] {
            clock.wind(Duration::from_secs(1));
            assert_eq!(made(&mut waiting), expected, "{name}");
        }
    }
}

#[tokio::test]
async fn a_known_limit_holds_in_any_time_as_long_as_its_period() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock.clone());
    limits.set_limit("known", 3, Duration::from_secs(1));
    assert_eq!(limits.try_take(&["known"]), None);
    clock.wind(Duration::from_millis(900));
    let taken = || (0..9).filter(|_| limits.try_take(&["known"]).is_none()).count();
    assert_eq!(taken(), 2);
    clock.wind(Duration::from_millis(100));
    assert_eq!(taken(), 1, "only the first call is a second ago");
}

#[tokio::test]
async fn a_pause_that_the_platform_asks_for_ends_and_leaves_no_limit() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock.clone());
    limits.set_limit("known", 100, Duration::from_secs(1));
    for name in ["chat", "known"] {
        limits.pause(name, Duration::from_secs(5));
        assert!(limits.try_take(&[name]).is_some(), "{name}");
        clock.wind(Duration::from_secs(5));
        assert!((0..50).all(|_| limits.try_take(&[name]).is_none()), "{name}");
    }
}

#[tokio::test]
async fn what_the_platform_announces_replaces_what_was_assumed_of_a_period() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let limits = PlatformRateLimits::new(clock.clone());
    limits.learn("b", 4, Duration::from_secs(9));
    clock.wind(Duration::from_secs(9));
    assert_eq!(limits.try_take(&["b"]), None, "a period of nine seconds is assumed");
    limits.learn("b", 0, Duration::from_secs(2));
    assert!(limits.try_take(&["b"]).is_some());
    clock.wind(Duration::from_secs(2));
    assert_eq!(limits.try_take(&["b"]), None);
}
