use crate::listener::{self, Listener, Names};
use errand::{Cidr, Config, Errand, Fault, OutgoingCall, UrlRefusal};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn errand(names: &Arc<Names>) -> Errand {
    listener::install_provider();
    Errand::with_lookup(Config::loopback(), Arc::clone(names) as _)
}

#[tokio::test]
async fn loopback_is_refused_unless_it_is_listed() {
    let listener = Listener::answers(OK).await;
    let config = Config { allow_http: true, ..Config::default() };
    for url in
        [listener.url("/"), listener.url_of("localhost", "/"), listener.url_of("[::ffff:127.0.0.1]", "/")]
    {
        let fault = listener::errand(config.clone()).run(OutgoingCall::get(url)).await.unwrap_err();
        assert!(
            matches!(fault, Fault::Refused(UrlRefusal::Address(_))) && fault.nothing_was_sent(),
            "{fault:?}"
        );
    }
    assert_eq!(listener.count(), 0);
}

#[tokio::test]
async fn a_name_with_one_address_inside_is_refused() {
    let listener = Listener::answers(OK).await;
    for inside in
        ["10.0.0.1", "169.254.169.254", "::ffff:192.168.0.1", "64:ff9b::a00:1", "fd00::1", "0.0.0.0"]
    {
        let names = Names::of(&[&["127.0.0.1", inside]]);
        let fault =
            errand(&names).run(OutgoingCall::get(listener.url_of("agent.test", "/"))).await.unwrap_err();
        assert_eq!(fault, Fault::Refused(UrlRefusal::Address(inside.parse().unwrap())));
        assert!(fault.nothing_was_sent() && !fault.may_pass());
        assert!(!fault.to_string().contains(inside), "{fault}");
    }
    assert_eq!(listener.count(), 0);
}

#[tokio::test]
async fn the_checked_address_is_the_one_that_is_called() {
    let listener = Listener::answers(OK).await;
    // The second answer would be an address inside; whoever looked up twice would call it.
    let names = Names::of(&[&["127.0.0.1"], &["10.0.0.1"]]);
    let errand = errand(&names);
    let url = listener.url_of("agent.test", "/");
    assert_eq!(errand.run(OutgoingCall::get(&url)).await.unwrap().status.as_u16(), 200);
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);
    assert!(listener.heard().await.contains(&format!("host: agent.test:{}", listener.address.port())));
    // The connection is closed by now, so the next call looks again, and is refused.
    let fault = errand.run(OutgoingCall::get(&url)).await.unwrap_err();
    assert!(matches!(fault, Fault::Refused(UrlRefusal::Address(_))), "{fault:?}");
    assert_eq!(listener.count(), 1);
}

#[tokio::test]
async fn a_kept_connection_stays_where_it_went() {
    let listener = Listener::keeps_answering(OK).await;
    let names = Names::of(&[&["127.0.0.1"], &["10.0.0.1"]]);
    let errand = errand(&names);
    for _ in 0..3 {
        errand.run(OutgoingCall::get(listener.url_of("agent.test", "/"))).await.unwrap();
    }
    assert_eq!((listener.count(), names.asked.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn plain_http_is_refused_unless_it_is_allowed() {
    let listener = Listener::answers(OK).await;
    let config = Config { allow_cidrs: Cidr::loopback().to_vec(), ..Config::default() };
    let fault = listener::errand(config).run(OutgoingCall::get(listener.url("/"))).await.unwrap_err();
    assert_eq!(fault, Fault::Refused(UrlRefusal::PlainHttp));
    assert_eq!(listener.count(), 0);
}

#[test]
fn a_url_can_be_checked_when_it_is_named() {
    let errand = Errand::new(Config::default());
    assert_eq!(
        errand.check("https://agent.example./p/x?y=1").unwrap().as_str(),
        "https://agent.example/p/x?y=1"
    );
    assert_eq!(errand.check_base("https://agent.example/p?y=1"), Err(UrlRefusal::Query));
    assert!(errand.check_base("https://agent.example/p/x").is_ok());
    assert!(matches!(errand.check("https://0x7f.1/"), Err(UrlRefusal::Address(_))));
}
