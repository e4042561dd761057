//! The values that a pickle describes (docs/formats/pytorch.md 2).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A value: a scalar, or the number of an object. Objects are referred to, never
/// copied, so that a pickle cannot describe more than it has opcodes for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Object(u32),
}

/// A value that is not a scalar.
#[derive(Debug)]
pub(super) enum Object<'a> {
    Text(Cow<'a, str>),
    /// Bytes, of which only the number is kept.
    Bytes(u64),
    /// An integer of more than 64 bits, which is not kept.
    Large,
    Tuple(Vec<Value>),
    List(Vec<Value>),
    Set(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    /// The name of a class or function.
    Global(Box<Global<'a>>),
    Storage(Box<Storage>),
    Tensor(Box<Tensor>),
    Opaque(Box<Opaque>),
}

/// A module and a name in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Global<'a> {
    pub module: Cow<'a, str>,
    pub name: Cow<'a, str>,
}

/// The bytes that tensors share.
#[derive(Debug, Clone)]
pub(super) struct Storage {
    /// The global of the class, which names the dtype.
    pub class: Value,
    /// The text of the key.
    pub key: Value,
    /// The number of elements of the class's dtype.
    pub count: u64,
    /// The elements that belong to a view of the storage: the first one, and their
    /// number.
    pub view: Option<(u64, u64)>,
}

/// The arguments from which PyTorch builds a tensor. They are checked when the tensor
/// is listed.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub storage: Value,
    pub offset: Value,
    pub size: Value,
    pub stride: Value,
    /// The dtype, if the storage has none of its own.
    pub dtype: Option<Value>,
    /// The dict of marks that change how the elements are read, or `None`.
    pub marks: Value,
}

/// An object of a class that is not known, or the result of a call that is not made.
#[derive(Debug, Clone)]
pub(super) struct Opaque {
    pub callable: Value,
    pub arguments: Value,
    /// The attributes of the object.
    pub state: Value,
    /// The entries of a dict, or of a list with its positions as keys.
    pub items: Vec<(Value, Value)>,
}
