use super::{OPENAPI, OPERATIONS};

#[test]
fn every_operation_is_described_and_nothing_else_is() {
    let wrong = http_kit::openapi::check_fragment(OPENAPI, &[post::OPENAPI], OPERATIONS);
    assert_eq!(wrong, Vec::<String>::new());
}
