//! The machine that runs the opcodes of a pickle. It builds values and calls nothing
//! (docs/formats/pytorch.md 2).

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::value::{Global, Object, Value};
use super::{element, text};
use crate::bytes::Cursor;
use crate::limits::PICKLE_OBJECTS;
use crate::{Error, Result, Rule};

/// A name or text that is copied counts as one entry for each of this many bytes.
pub(super) const BYTES_PER_ENTRY: usize = 8;

/// The values that one pickle describes, while it is read and afterwards.
#[derive(Debug, Default)]
pub(super) struct Machine<'a> {
    objects: Vec<Object<'a>>,
    pub(super) stack: Vec<Value>,
    /// The lengths of the stack at its marks.
    marks: Vec<usize>,
    memo: BTreeMap<u64, Value>,
    /// The number of opcodes and entries, which is limited.
    work: u64,
}

pub(super) fn refuse(detail: impl Into<Cow<'static, str>>) -> Error {
    Error::malformed(Rule::PyTorchPickle, detail)
}

impl<'a> Machine<'a> {
    /// Runs the pickle at the beginning of `bytes`. Returns its values, the value that
    /// it describes, and its length in bytes.
    ///
    /// # Errors
    /// [`Rule::Truncated`] if it does not end in `bytes`, and [`Rule::PyTorchPickle`]
    /// if it is malformed.
    pub fn run(bytes: &'a [u8]) -> Result<(Self, Value, u64)> {
        let mut machine = Self::default();
        let mut cursor = Cursor::new(bytes);
        loop {
            let at = cursor.position() as u64;
            let opcode = cursor.u8("an opcode")?;
            if opcode == b'.' {
                let root = machine.pop().map_err(|error| error.at(at))?;
                return Ok((machine, root, cursor.position() as u64));
            }
            let counted = machine.count(1);
            counted
                .and_then(|()| machine.step(opcode, &mut cursor))
                .map_err(|error| error.at(at))?;
        }
    }

    pub fn object(&self, value: Value) -> Option<&Object<'a>> {
        match value {
            Value::Object(number) => self.objects.get(number as usize),
            _ => None,
        }
    }

    pub fn text(&self, value: Value) -> Option<&str> {
        match self.object(value)? {
            Object::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn global(&self, value: Value) -> Option<&Global<'a>> {
        match self.object(value)? {
            Object::Global(global) => Some(global),
            _ => None,
        }
    }

    /// Returns the elements of a tuple or list.
    pub fn sequence(&self, value: Value) -> Option<&[Value]> {
        match self.object(value)? {
            Object::Tuple(items) | Object::List(items) => Some(items),
            _ => None,
        }
    }

    /// Counts opcodes and entries, and fails if there are too many.
    pub fn count(&mut self, more: usize) -> Result<()> {
        self.work = self.work.saturating_add(more as u64);
        if self.work > PICKLE_OBJECTS {
            let detail = format!("the pickle has over {PICKLE_OBJECTS} opcodes and entries");
            return Err(Error::limit(detail));
        }
        Ok(())
    }

    pub fn add(&mut self, object: Object<'a>) -> Result<Value> {
        let number = self.objects.len() as u64;
        self.objects.push(object);
        // The limit on opcodes is below 2^30, and none adds over two objects.
        Ok(Value::Object(u32::try_from(number).unwrap_or(u32::MAX)))
    }

    fn push(&mut self, object: Object<'a>) -> Result<()> {
        let value = self.add(object)?;
        self.stack.push(value);
        Ok(())
    }

    /// Returns the number of values that belong to marks, which are not popped.
    fn fence(&self) -> usize {
        self.marks.last().copied().unwrap_or_default()
    }

    fn top(&self) -> Result<Value> {
        let top = self
            .stack
            .last()
            .filter(|_| self.stack.len() > self.fence());
        top.copied()
            .ok_or_else(|| refuse("an opcode of the pickle requires a value that is not there"))
    }

    pub(super) fn pop(&mut self) -> Result<Value> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Removes the values above the last mark, and the mark.
    pub(super) fn pop_mark(&mut self) -> Result<Vec<Value>> {
        let mark = self.marks.pop();
        let mark = mark.ok_or_else(|| refuse("an opcode of the pickle requires a mark"))?;
        let items = self.stack.split_off(mark);
        self.count(items.len())?;
        Ok(items)
    }

    fn pairs(&mut self) -> Result<Vec<(Value, Value)>> {
        let items = self.pop_mark()?;
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(refuse("a dict of the pickle has a key without a value"));
        }
        Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect())
    }

    fn step(&mut self, opcode: u8, cursor: &mut Cursor<'a>) -> Result<()> {
        match opcode {
            // Protocol and frames do not affect the values.
            0x80 => drop(cursor.u8("the protocol")?),
            0x95 => drop(cursor.u64("the length of a frame")?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => match self.marks.last() == Some(&self.stack.len()) {
                true => drop(self.marks.pop()),
                false => drop(self.pop()?),
            },
            b'1' => drop(self.pop_mark()?),
            b'2' => self.stack.push(self.top()?),
            b'N' => self.stack.push(Value::None),
            0x88 => self.stack.push(Value::Bool(true)),
            0x89 => self.stack.push(Value::Bool(false)),
            b'I' | b'J' | b'K' | b'L' | b'M' | 0x8a | 0x8b => self.integer(opcode, cursor)?,
            b'F' => {
                let line = text::line(cursor)?;
                let number = text::ascii(line).and_then(|line| line.trim().parse().ok());
                let number = number.ok_or_else(|| refuse("a float of the pickle is malformed"))?;
                self.stack.push(Value::Float(number));
            }
            b'G' => {
                let bits = cursor.array("a float")?;
                self.stack.push(Value::Float(f64::from_be_bytes(bits)));
            }
            b'S' | b'V' | b'T' | b'U' | b'X' | 0x8c | 0x8d => {
                let object = text::read(opcode, cursor)?;
                self.push(object)?;
            }
            b'B' | b'C' | 0x8e | 0x96 => {
                let len_bytes = match opcode {
                    b'B' => cursor.u32("a length")?.into(),
                    b'C' => cursor.u8("a length")?.into(),
                    _ => cursor.u64("a length")?,
                };
                cursor.take(len_bytes, "bytes")?;
                self.push(Object::Bytes(len_bytes))?;
            }
            b')' => self.push(Object::Tuple(Vec::new()))?,
            b']' => self.push(Object::List(Vec::new()))?,
            b'}' => self.push(Object::Dict(Vec::new()))?,
            0x8f => self.push(Object::Set(Vec::new()))?,
            0x85..=0x87 => self.short_tuple(usize::from(opcode) - 0x84)?,
            b't' => {
                let items = self.pop_mark()?;
                self.push(Object::Tuple(items))?;
            }
            b'l' => {
                let items = self.pop_mark()?;
                self.push(Object::List(items))?;
            }
            0x91 => {
                let items = self.pop_mark()?;
                self.push(Object::Set(items))?;
            }
            b'd' => {
                let pairs = self.pairs()?;
                self.push(Object::Dict(pairs))?;
            }
            b'a' => {
                let item = self.pop()?;
                self.count(1)?;
                self.append([item].into())?;
            }
            b'e' | 0x90 => {
                let items = self.pop_mark()?;
                self.append(items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.count(1)?;
                self.set([(key, value)].into())?;
            }
            b'u' => {
                let pairs = self.pairs()?;
                self.set(pairs)?;
            }
            b'p' | b'q' | b'r' | 0x94 | b'g' | b'h' | b'j' => self.memo(opcode, cursor)?,
            b'c' | 0x93 | b'R' | 0x81 | 0x92 | b'i' | b'o' | b'b' | b'P' | b'Q' => {
                self.construct(opcode, cursor)?;
            }
            other => {
                let detail = format!("the pickle has an opcode {other:#04x}, which is not known");
                return Err(refuse(detail));
            }
        }
        Ok(())
    }

    fn integer(&mut self, opcode: u8, cursor: &mut Cursor<'a>) -> Result<()> {
        let value = match opcode {
            b'J' => Value::Int(i32::from_le_bytes(cursor.array("an integer")?).into()),
            b'K' => Value::Int(cursor.u8("an integer")?.into()),
            b'M' => Value::Int(cursor.u16("an integer")?.into()),
            0x8a | 0x8b => {
                let len_bytes = match opcode {
                    0x8a => cursor.u8("a length")?.into(),
                    _ => cursor.u32("a length")?,
                };
                match signed(cursor.take(len_bytes.into(), "an integer")?) {
                    Some(number) => Value::Int(number),
                    None => self.add(Object::Large)?,
                }
            }
            _ => {
                let line = text::ascii(text::line(cursor)?).map(str::trim);
                let line = line.ok_or_else(|| refuse("an integer of the pickle is malformed"))?;
                match (opcode, line) {
                    (b'I', "00") => Value::Bool(false),
                    (b'I', "01") => Value::Bool(true),
                    _ => self.decimal(line.strip_suffix('L').unwrap_or(line))?,
                }
            }
        };
        self.stack.push(value);
        Ok(())
    }

    fn decimal(&mut self, digits: &str) -> Result<Value> {
        if let Ok(number) = digits.parse() {
            return Ok(Value::Int(number));
        }
        let magnitude = digits.strip_prefix('-').unwrap_or(digits).as_bytes();
        if magnitude.is_empty() || !magnitude.iter().all(u8::is_ascii_digit) {
            return Err(refuse("an integer of the pickle is malformed"));
        }
        self.add(Object::Large)
    }

    fn short_tuple(&mut self, len: usize) -> Result<()> {
        let start = self.stack.len().checked_sub(len);
        let start = start.filter(|start| *start >= self.fence());
        let start = start.ok_or_else(|| refuse("a tuple of the pickle lacks elements"))?;
        let items = self.stack.split_off(start);
        self.count(items.len())?;
        self.push(Object::Tuple(items))
    }

    pub(super) fn target(&mut self) -> Result<&mut Object<'a>> {
        let target = match self.top()? {
            Value::Object(number) => self.objects.get_mut(number as usize),
            _ => None,
        };
        target.ok_or_else(|| refuse("the pickle adds entries to a scalar"))
    }

    fn append(&mut self, mut items: Vec<Value>) -> Result<()> {
        match self.target()? {
            Object::List(list) | Object::Set(list) => list.append(&mut items),
            Object::Opaque(opaque) => {
                let first = opaque.items.len() as i64;
                let keys = (first..).map(Value::Int);
                opaque.items.extend(keys.zip(items));
            }
            _ => {
                return Err(refuse(
                    "the pickle adds elements to an object that has none",
                ));
            }
        }
        Ok(())
    }

    fn set(&mut self, mut pairs: Vec<(Value, Value)>) -> Result<()> {
        match self.target()? {
            Object::Dict(dict) => dict.append(&mut pairs),
            Object::Opaque(opaque) => opaque.items.append(&mut pairs),
            _ => {
                return Err(refuse(
                    "the pickle adds entries to an object that is no dict",
                ));
            }
        }
        Ok(())
    }

    fn memo(&mut self, opcode: u8, cursor: &mut Cursor<'a>) -> Result<()> {
        let number = match opcode {
            b'q' | b'h' => cursor.u8("a number")?.into(),
            b'r' | b'j' => cursor.u32("a number")?.into(),
            0x94 => self.memo.len() as u64,
            _ => {
                let line = text::ascii(text::line(cursor)?);
                let number = line.and_then(|line| line.trim().parse().ok());
                number.ok_or_else(|| refuse("a number of the memo is malformed"))?
            }
        };
        if matches!(opcode, b'g' | b'h' | b'j') {
            let value = self.memo.get(&number).copied();
            let value = value.ok_or_else(|| refuse("the pickle refers to a missing value"))?;
            self.stack.push(value);
        } else {
            self.memo.insert(number, self.top()?);
        }
        Ok(())
    }

    /// Returns the lengths in bytes of all storages and of their elements, by key.
    pub fn storages(&self) -> Result<BTreeMap<String, (u64, u64)>> {
        let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for object in &self.objects {
            let Object::Storage(storage) = object else {
                continue;
            };
            let legacy = |detail| Error::malformed(Rule::PyTorchLegacy, detail);
            let width = self.global(storage.class).and_then(element::width);
            let width = width.ok_or_else(|| legacy("the class of a storage is not known"))?;
            let len_bytes = storage.count.checked_mul(width);
            let len_bytes = len_bytes
                .ok_or_else(|| legacy("a storage has more bytes than 64 bits can count"))?;
            let known = (len_bytes, width);
            if let Some(other) =
                all.insert(self.text(storage.key).unwrap_or_default().into(), known)
                && other != known
            {
                return Err(legacy("the file states two lengths for one storage"));
            }
        }
        Ok(all)
    }
}

/// Returns a little-endian integer in two's complement, if it has at most 64 bits.
fn signed(bytes: &[u8]) -> Option<i64> {
    let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut all = if is_negative { [0xff; 8] } else { [0; 8] };
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(all))
}
