//! The names of dtypes and of the classes of storages (docs/formats/pytorch.md 3).

use alloc::format;
use alloc::string::String;

use super::value::Global;
use crate::dtype::Dtype;
use crate::{Error, Result};

/// Returns the dtype of a storage's class; `None` if the storage consists of bytes to
/// which each tensor assigns a dtype.
///
/// # Errors
/// [`Unsupported`](crate::ErrorKind::Unsupported) if the class is not known.
pub(super) fn of_class(class: &Global) -> Result<Option<Dtype>> {
    let is_module = matches!(&*class.module, "torch" | "torch.cuda" | "torch.storage");
    let stem = class.name.strip_suffix("Storage").filter(|_| is_module);
    let dtype = match stem.unwrap_or_default() {
        "Untyped" => return Ok(None),
        "Double" => Dtype::F64,
        "Float" => Dtype::F32,
        "Half" => Dtype::F16,
        "BFloat16" => Dtype::Bf16,
        "Long" => Dtype::I64,
        "Int" => Dtype::I32,
        "Short" => Dtype::I16,
        "Char" => Dtype::I8,
        "Byte" => Dtype::U8,
        "Bool" => Dtype::Bool,
        "ComplexFloat" => Dtype::C64,
        "UInt16" => Dtype::U16,
        "UInt32" => Dtype::U32,
        "UInt64" => Dtype::U64,
        "Float8_e4m3fn" => Dtype::F8E4M3,
        "Float8_e5m2" => Dtype::F8E5M2,
        "Float8_e4m3fnuz" => Dtype::F8E4M3Fnuz,
        "Float8_e5m2fnuz" => Dtype::F8E5M2Fnuz,
        "Float8_e8m0fnu" => Dtype::F8E8M0,
        _ => return Err(unknown(class)),
    };
    Ok(Some(dtype))
}

/// Returns the number of bytes of an element of a storage's class, or `None` if the class
/// is not known.
pub(super) fn width(class: &Global) -> Option<u64> {
    match &*class.name {
        "ComplexDoubleStorage" => Some(16),
        "ComplexHalfStorage" | "QInt32Storage" => Some(4),
        "QInt8Storage" | "QUInt8Storage" => Some(1),
        _ => {
            let dtype = of_class(class).ok()?;
            Some(dtype.map_or(1, |dtype| dtype.bits() / 8))
        }
    }
}

/// Returns the dtype that PyTorch calls `torch.NAME`.
///
/// # Errors
/// [`Unsupported`](crate::ErrorKind::Unsupported) if it has no counterpart.
pub(super) fn of_name(global: &Global) -> Result<Dtype> {
    Ok(match &*global.name {
        "float64" | "double" => Dtype::F64,
        "float32" | "float" => Dtype::F32,
        "float16" | "half" => Dtype::F16,
        "bfloat16" => Dtype::Bf16,
        "int64" | "long" => Dtype::I64,
        "int32" | "int" => Dtype::I32,
        "int16" | "short" => Dtype::I16,
        "int8" => Dtype::I8,
        "uint8" => Dtype::U8,
        "uint16" => Dtype::U16,
        "uint32" => Dtype::U32,
        "uint64" => Dtype::U64,
        "bool" => Dtype::Bool,
        "complex64" | "cfloat" => Dtype::C64,
        "float8_e4m3fn" => Dtype::F8E4M3,
        "float8_e5m2" => Dtype::F8E5M2,
        "float8_e4m3fnuz" => Dtype::F8E4M3Fnuz,
        "float8_e5m2fnuz" => Dtype::F8E5M2Fnuz,
        "float8_e8m0fnu" => Dtype::F8E8M0,
        _ => return Err(unknown(global)),
    })
}

fn unknown(global: &Global) -> Error {
    Error::unsupported(format!(
        "its element type `{}` has no counterpart among the dtypes that can be read",
        full_name(global)
    ))
}

/// Returns the name of a class or function with its module, in ASCII. Both are cut off, so
/// that the name fits a message.
pub(super) fn full_name(global: &Global) -> String {
    format!("{}.{}", cut(&global.module), cut(&global.name))
}

/// Returns the first 100 characters of text after other characters than those of ASCII
/// have been escaped.
pub(crate) fn cut(text: &str) -> String {
    text.escape_default().take(100).collect()
}
