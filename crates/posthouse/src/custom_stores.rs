//! Custom stores of this build of the server. A custom build registers its Rust types here.

use workshop::CustomStores;

/// The types for `--skill-store custom:NAME` and `--data-store custom:NAME`. `docs/guide/write-a-store.md` has an example.
pub fn custom_stores() -> CustomStores {
    CustomStores::default()
}
