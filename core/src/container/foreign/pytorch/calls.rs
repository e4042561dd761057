//! The calls in a pickle whose results are known without making them
//! (docs/formats/pytorch.md 2.2). Any other call becomes an opaque object.

use alloc::vec::Vec;

use super::machine::{BYTES_PER_ENTRY, Machine};
use super::value::{Global, Object, Storage, Tensor, Value};
use crate::Result;

/// The most types around a tensor that are removed.
const WRAPPERS: usize = 16;

impl Machine<'_> {
    /// Returns the value that stands for the result of a call, or for a new object of
    /// a class. Nothing is called.
    pub(super) fn call(&mut self, callable: Value, arguments: Value) -> Result<Value> {
        let (mut callable, mut arguments) = (callable, arguments);
        for _ in 0..WRAPPERS {
            let Some(Global { module, name }) = self.global(callable) else {
                break;
            };
            let known = match (&**module, &**name) {
                ("collections", "OrderedDict" | "defaultdict")
                | ("builtins" | "__builtin__", "dict") => Known::Dict,
                ("builtins" | "__builtin__", "set" | "frozenset" | "list" | "tuple")
                | ("torch", "Size") => Known::FirstOrEmpty,
                (
                    "torch._utils",
                    "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3",
                ) => Known::Tensor {
                    has_dtype: name.ends_with('3'),
                },
                ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state")
                | (
                    "torch.jit._pickle",
                    "build_intlist" | "build_tensorlist" | "build_doublelist" | "build_boollist"
                    | "restore_type_tag",
                ) => Known::First,
                ("torch._tensor", "_rebuild_from_type_v2") => Known::OtherCall,
                _ => break,
            };
            let given = self.sequence(arguments).unwrap_or_default();
            match (known, given) {
                (Known::Dict, given) => return self.dict(given.last().copied()),
                (Known::First | Known::FirstOrEmpty, [first, ..]) => return Ok(*first),
                (Known::FirstOrEmpty, []) => return self.add(Object::Tuple(Vec::new())),
                (Known::Tensor { has_dtype }, [storage, offset, size, stride, rest @ ..])
                    if !has_dtype || rest.len() >= 3 =>
                {
                    let tensor = Tensor {
                        storage: *storage,
                        offset: *offset,
                        size: *size,
                        stride: *stride,
                        dtype: rest.get(2).copied().filter(|_| has_dtype),
                        marks: rest
                            .get(2 + usize::from(has_dtype))
                            .copied()
                            .unwrap_or(Value::None),
                    };
                    return self.add(Object::Tensor(tensor.into()));
                }
                (Known::OtherCall, [function, _type, given, ..]) => {
                    (callable, arguments) = (*function, *given);
                }
                _ => break,
            }
        }
        self.opaque(callable, arguments)
    }

    /// Returns a new dict with the entries of a dict, or of a list of pairs.
    fn dict(&mut self, entries: Option<Value>) -> Result<Value> {
        let pair = |item: &Value| match self.sequence(*item) {
            Some([key, value]) => Some((*key, *value)),
            _ => None,
        };
        let entries: Vec<(Value, Value)> = match entries.and_then(|value| self.object(value)) {
            Some(Object::Dict(entries)) => entries.clone(),
            Some(Object::List(items) | Object::Tuple(items)) => {
                items.iter().filter_map(pair).collect()
            }
            _ => Vec::new(),
        };
        self.count(entries.len())?;
        self.add(Object::Dict(entries))
    }

    /// Returns the value of a persistent id: a storage, or the class of a module. Its key
    /// counts each time, since opcodes may refer to a long one often.
    pub(super) fn persistent(&mut self, id: Value) -> Result<Value> {
        let fields = self.sequence(id).unwrap_or_default();
        let kind = fields.first().and_then(|kind| self.text(*kind));
        if let (Some("module"), Some(class)) = (kind, fields.get(1)) {
            return Ok(*class);
        }
        let storage = match (kind, fields) {
            (Some("storage"), [_, class, key, _, count, rest @ ..]) => {
                self.storage(*class, *key, *count, rest.first().copied())
            }
            _ => None,
        };
        match storage {
            Some(storage) => {
                self.count(self.text(storage.key).map_or(0, str::len) / BYTES_PER_ENTRY)?;
                self.add(Object::Storage(storage.into()))
            }
            None => self.opaque(Value::None, id),
        }
    }
}

/// The result of a call.
enum Known {
    /// A dict of the last argument.
    Dict,
    /// The first argument.
    First,
    /// The first argument, or an empty tuple.
    FirstOrEmpty,
    Tensor {
        has_dtype: bool,
    },
    /// The result of the call that the arguments describe.
    OtherCall,
}

impl Machine<'_> {
    fn storage(
        &self,
        class: Value,
        key: Value,
        count: Value,
        view: Option<Value>,
    ) -> Option<Storage> {
        let view = match view {
            Some(view) if view != Value::None => match self.sequence(view)? {
                [_key, offset, len] => Some((unsigned(*offset)?, unsigned(*len)?)),
                _ => return None,
            },
            _ => None,
        };
        self.global(class)?;
        self.text(key)?;
        Some(Storage {
            class,
            key,
            count: unsigned(count)?,
            view,
        })
    }
}

/// Returns an integer that is not negative.
pub(super) fn unsigned(value: Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(number).ok(),
        _ => None,
    }
}
