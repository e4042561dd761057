//! The text of plain values, for metadata (docs/formats/pytorch.md 2.3).

use alloc::format;
use alloc::string::{String, ToString};

use super::machine::Machine;
use super::value::{Object, Value};

/// The length in bytes after which the text of a list or call is cut off.
const TEXT_LEN_BYTES: usize = 400;

/// The depth up to which lists in lists are written.
const DEPTH: usize = 4;

/// Returns the text of a value: text as it is, other values as Python writes them. Long
/// lists are shortened.
pub(super) fn text(machine: &Machine, value: Value) -> String {
    if let Some(text) = machine.text(value) {
        return text.into();
    }
    let mut out = String::new();
    write(machine, value, DEPTH, &mut out);
    out
}

/// Returns whether a value is a scalar, text, or the name of a class.
pub(super) fn is_plain(machine: &Machine, value: Value) -> bool {
    match machine.object(value) {
        None => true,
        Some(object) => matches!(
            object,
            Object::Text(_) | Object::Bytes(_) | Object::Large | Object::Global(_)
        ),
    }
}

fn write(machine: &Machine, value: Value, depth: usize, out: &mut String) {
    let object = match value {
        Value::None => return out.push_str("None"),
        Value::Bool(true) => return out.push_str("True"),
        Value::Bool(false) => return out.push_str("False"),
        Value::Int(number) => return out.push_str(&number.to_string()),
        Value::Float(number) => return out.push_str(&format!("{number:?}")),
        Value::Object(_) => machine.object(value),
    };
    let list = |open: &str, items: &[Value], close: &str, out: &mut String| {
        out.push_str(open);
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                out.push_str(", ");
            }
            if depth == 0 || out.len() > TEXT_LEN_BYTES {
                out.push('…');
                break;
            }
            write(machine, *item, depth - 1, out);
        }
        out.push_str(close);
    };
    match object {
        None => {}
        Some(Object::Text(text)) => {
            let start = out.len();
            out.push('"');
            for character in text.escape_debug() {
                if out.len() - start > TEXT_LEN_BYTES {
                    out.push('…');
                    break;
                }
                out.push(character);
            }
            out.push('"');
        }
        Some(Object::Bytes(len_bytes)) => out.push_str(&format!("({len_bytes} bytes)")),
        Some(Object::Large) => out.push_str("(an integer of over 64 bits)"),
        Some(Object::Tuple(items)) => list("(", items, ")", out),
        Some(Object::List(items)) => list("[", items, "]", out),
        Some(Object::Set(items)) => list("{", items, "}", out),
        Some(Object::Dict(entries)) => {
            out.push_str(&format!("(a dict of {} entries)", entries.len()));
        }
        Some(Object::Global(global)) => {
            out.push_str(&format!("{}.{}", global.module, global.name));
        }
        Some(Object::Storage(_)) => out.push_str("(a storage)"),
        Some(Object::Tensor(_)) => out.push_str("(a tensor)"),
        Some(Object::Opaque(opaque)) => {
            if opaque.callable != Value::None && depth > 0 {
                write(machine, opaque.callable, depth - 1, out);
            }
            let arguments = machine.sequence(opaque.arguments).unwrap_or_default();
            list("(", arguments, ")", out);
        }
    }
}
