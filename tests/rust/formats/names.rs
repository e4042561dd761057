//! The mapping between names of plain and packed files and indices, checked with the
//! table that the tests of all languages share.

use serde_json::Value;
use zstn_core::catalog::{IndexName, Kind, renamed};
use zstn_tests::repository;

fn table() -> Value {
    let text = std::fs::read(repository().join("tests/names.json")).expect("the table");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn packing_changes_one_part_of_a_name_and_unpacking_restores_it() {
    let table = table();
    for row in table["names"].as_array().expect("rows") {
        let text = |key: &str| row[key].as_str().expect("a name");
        let (plain, packed) = (text("plain"), text("packed"));
        let [from, to] = [Kind::Safetensors, Kind::Zstn];
        assert_eq!(renamed(plain, from, to).as_deref(), Some(packed));
        assert_eq!(renamed(packed, to, from).as_deref(), Some(plain));
        assert_eq!(
            renamed(packed, from, to),
            None,
            "{packed} is packed already"
        );
        let delta = renamed(plain, from, Kind::Delta).expect("a name");
        assert_eq!(renamed(&delta, Kind::Delta, from).as_deref(), Some(plain));
        for (name, kind) in [(plain, from), (packed, to)] {
            let index = IndexName::parse(name);
            assert_eq!(index.is_some(), row["index"] == true, "{name}");
            assert!(index.is_none_or(|index| index.kind() == kind));
            let has_variant = index.is_some_and(|index| index.has_variant());
            assert_eq!(has_variant, row["variant"] == true, "{name}");
        }
    }
}

#[test]
fn other_names_stay() {
    for name in table()["others"].as_array().expect("names") {
        let name = name.as_str().expect("a name");
        assert_eq!(renamed(name, Kind::Safetensors, Kind::Zstn), None, "{name}");
        assert_eq!(IndexName::parse(name), None, "{name}");
    }
}
