//! Unique random names for temporary files and paste buffers.

/// A new random name with this prefix.
pub(super) fn name(prefix: &str) -> String {
    let mut random = [0; 12];
    aws_lc_rs::rand::fill(&mut random)
        .expect("the generator fails only when the system has no entropy at all");
    format!("{prefix}{}", hex::encode(random))
}
