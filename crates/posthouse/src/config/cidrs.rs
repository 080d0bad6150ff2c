//! Serde format of address ranges: a list of strings.

use errand::Cidr;
use serde::{Deserialize, Deserializer, Serializer};

pub fn serialize<S: Serializer>(cidrs: &[Cidr], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(cidrs.iter().map(ToString::to_string))
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Cidr>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}
