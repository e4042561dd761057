//! The structure of `config.json`, without the keys that are not used.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The keys that are read from `config.json`. The groups keep their order.
#[derive(serde::Deserialize)]
pub struct Top {
    pub quantization_config: Option<Entry>,
    pub compression_config: Option<Entry>,
    pub sparsity_config: Option<Map<String, Value>>,
}

#[derive(serde::Deserialize)]
pub struct Entry {
    pub quant_method: Option<String>,
    pub version: Option<String>,
    pub format: Option<String>,
    pub quantization_status: Option<String>,
    pub config_groups: Option<Groups>,
    pub ignore: Option<Vec<String>>,
    pub sparsity_config: Option<Map<String, Value>>,
    pub transform_config: Option<Map<String, Value>>,
}

pub struct Groups(pub Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Groups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Groups;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of groups")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Groups, A::Error> {
                let mut groups = Vec::new();
                while let Some(group) = map.next_entry()? {
                    groups.push(group);
                }
                Ok(Groups(groups))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
