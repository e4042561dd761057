//! Validates JSON against the schemas in `docs/schema`.

use serde_json::{Map, Value};

use crate::repository;

/// Checks the JSON output of a command against `docs/schema/NAME.json`.
///
/// # Panics
/// If the value does not match, or the schema uses a keyword that this module does not
/// support.
pub fn check(name: &str, value: &Value) {
    let path = repository().join(format!("docs/schema/{name}.json"));
    let text = std::fs::read(&path).unwrap_or_else(|_| panic!("there is no {}", path.display()));
    let schema: Value = serde_json::from_slice(&text).expect("a schema is JSON");
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    let problem = compare(&schema, value, "$");
    assert_eq!(problem, None, "{name}.json: {value}");
}

/// Returns a description of the first mismatch; `None` if the value matches.
fn compare(schema: &Value, value: &Value, at: &str) -> Option<String> {
    let schema = schema.as_object().expect("a schema is an object");
    for (keyword, wanted) in schema {
        let problem = match keyword.as_str() {
            "$schema" | "title" | "description" | "required" | "additionalProperties" => None,
            "type" => (!has_type(wanted, value)).then(|| format!("{value} is not {wanted}")),
            "enum" => {
                let is_one = wanted.as_array().expect("a list").contains(value);
                (!is_one).then(|| format!("{value} is not one of {wanted}"))
            }
            "minimum" => {
                let is_less = value.as_f64() < wanted.as_f64();
                (value.is_number() && is_less).then(|| format!("{value} is less than {wanted}"))
            }
            "minItems" => {
                let few = value
                    .as_array()
                    .is_some_and(|all| (all.len() as u64) < wanted.as_u64().unwrap());
                few.then(|| "too few items".into())
            }
            "pattern" => {
                let len = match wanted.as_str() {
                    Some("^[0-9a-f]{64}$") => 64,
                    Some("^[0-9a-f]{32}$") => 32,
                    other => panic!("the pattern {other:?} is not checked"),
                };
                let text = value.as_str().unwrap_or_default();
                let is_digest = text.len() == len
                    && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
                (!is_digest).then(|| format!("{value} is no digest of {len} hex digits"))
            }
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                let mut problems =
                    items.filter_map(|(n, item)| compare(wanted, item, &format!("{at}[{n}]")));
                problems.next()
            }
            "properties" => members(schema, value, at),
            "anyOf" => {
                let mut all = wanted.as_array().expect("a list").iter();
                let is_any = all.any(|one| compare(one, value, at).is_none());
                (!is_any).then(|| format!("{value} is none of anyOf"))
            }
            other => panic!("the keyword {other} is not checked here"),
        };
        if let Some(problem) = problem {
            return Some(match problem.starts_with('$') {
                true => problem,
                false => format!("{at}: {problem}"),
            });
        }
    }
    // The schema allows objects with arbitrary keys.
    match (schema.get("properties"), value) {
        (None, Value::Object(_)) if schema.contains_key("additionalProperties") => {
            members(schema, value, at)
        }
        _ => None,
    }
}

fn members(schema: &Map<String, Value>, value: &Value, at: &str) -> Option<String> {
    let object = value.as_object()?;
    for key in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if !object.contains_key(key.as_str().expect("a name")) {
            return Some(format!("{at}: {key} is missing"));
        }
    }
    let mut problems = object.iter().filter_map(|(key, member)| {
        let at = format!("{at}.{key}");
        let own = schema.get("properties").and_then(|all| all.get(key));
        match (own, schema.get("additionalProperties")) {
            (Some(own), _) => compare(own, member, &at),
            (None, Some(Value::Bool(false))) => Some(format!("{at} is not in the schema")),
            (None, Some(other)) => compare(other, member, &at),
            (None, None) => None,
        }
    });
    problems.next()
}

fn has_type(wanted: &Value, value: &Value) -> bool {
    if let Value::Array(several) = wanted {
        return several.iter().any(|one| has_type(one, value));
    }
    match wanted.as_str().expect("the name of a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("{other} is not a type"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_found() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": ["integer", "null"], "minimum": 0},
                "b": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
                "c": {"type": "object", "additionalProperties": {"type": "boolean"}}
            },
            "required": ["a"],
            "additionalProperties": false
        });
        for good in [
            json!({"a": 1}),
            json!({"a": null, "b": ["x", "y"], "c": {"any": true}}),
        ] {
            assert_eq!(compare(&schema, &good, "$"), None);
        }
        for bad in [
            json!({}),
            json!(1),
            json!({"a": -1}),
            json!({"a": 1.5}),
            json!({"a": 1, "b": ["z"]}),
            json!({"a": 1, "b": "x"}),
            json!({"a": 1, "c": {"any": 1}}),
            json!({"a": 1, "d": 1}),
        ] {
            assert!(compare(&schema, &bad, "$").is_some(), "{bad}");
        }
    }
}
