//! The opcodes of a pickle for which Python imports a class or function and calls it. Here
//! they only build values (docs/formats/pytorch.md 2.2).

use alloc::format;
use alloc::vec::Vec;

use super::machine::{BYTES_PER_ENTRY, Machine, refuse};
use super::text;
use super::value::{Global, Object, Opaque, Value};
use crate::bytes::Cursor;
use crate::{Error, Result};

/// The longest name of a module or class, in bytes.
const GLOBAL_LEN_BYTES: usize = 1024;

impl<'a> Machine<'a> {
    /// Runs an opcode that Python executes by importing and calling.
    pub(super) fn construct(&mut self, opcode: u8, cursor: &mut Cursor<'a>) -> Result<()> {
        let value = match opcode {
            b'c' => {
                let global = global_of_lines(cursor)?;
                self.add(Object::Global(global.into()))?
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let global = match (self.object(module), self.object(name)) {
                    (Some(Object::Text(module)), Some(Object::Text(name))) => {
                        check_global(module, name)?;
                        Global {
                            module: module.clone(),
                            name: name.clone(),
                        }
                    }
                    _ => return Err(refuse("the name of a class in the pickle is not text")),
                };
                self.count((global.module.len() + global.name.len()) / BYTES_PER_ENTRY)?;
                self.add(Object::Global(global.into()))?
            }
            b'R' | 0x81 => {
                let (arguments, callable) = (self.pop()?, self.pop()?);
                self.call(callable, arguments)?
            }
            0x92 => {
                let (_keywords, arguments) = (self.pop()?, self.pop()?);
                let callable = self.pop()?;
                self.call(callable, arguments)?
            }
            b'i' => {
                let global = global_of_lines(cursor)?;
                let arguments = self.pop_mark()?;
                let callable = self.add(Object::Global(global.into()))?;
                let arguments = self.add(Object::Tuple(arguments))?;
                self.call(callable, arguments)?
            }
            b'o' => {
                let mut items = self.pop_mark()?;
                if items.is_empty() {
                    return Err(refuse("an object of the pickle has no class"));
                }
                let arguments = items.split_off(1);
                let callable = items.pop().unwrap_or(Value::None);
                let arguments = self.add(Object::Tuple(arguments))?;
                self.call(callable, arguments)?
            }
            b'b' => {
                let state = self.pop()?;
                // The attributes of other objects, such as `_metadata` of a dict of
                // weights, are not entries of it.
                if let Ok(Object::Opaque(opaque)) = self.target() {
                    opaque.state = state;
                }
                return Ok(());
            }
            b'P' => {
                text::line(cursor)?;
                self.opaque(Value::None, Value::None)?
            }
            _ => {
                let id = self.pop()?;
                self.persistent(id)?
            }
        };
        self.stack.push(value);
        Ok(())
    }

    /// Returns an object for a call that is not made.
    pub fn opaque(&mut self, callable: Value, arguments: Value) -> Result<Value> {
        let opaque = Opaque {
            callable,
            arguments,
            state: Value::None,
            items: Vec::new(),
        };
        self.add(Object::Opaque(opaque.into()))
    }
}

fn check_global(module: &str, name: &str) -> Result<()> {
    if module.len().max(name.len()) <= GLOBAL_LEN_BYTES {
        return Ok(());
    }
    let detail = format!("the name of a class has over {GLOBAL_LEN_BYTES} bytes");
    Err(Error::limit(detail))
}

fn global_of_lines<'a>(cursor: &mut Cursor<'a>) -> Result<Global<'a>> {
    let mut line = || {
        let line = core::str::from_utf8(text::line(cursor)?);
        line.map_err(|_| refuse("the name of a class in the pickle is not UTF-8"))
    };
    let (module, name) = (line()?, line()?);
    check_global(module, name)?;
    Ok(Global {
        module: module.into(),
        name: name.into(),
    })
}
