//! Names that nobody else has.

/// For what lives only as long as one call: a paste buffer, a file that is still being written.
pub(super) fn name(prefix: &str) -> String {
    let mut random = [0; 12];
    aws_lc_rs::rand::fill(&mut random)
        .expect("the generator fails only when the system has no entropy at all");
    format!("{prefix}{}", hex::encode(random))
}
