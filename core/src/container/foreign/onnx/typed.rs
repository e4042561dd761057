//! Values that are stored as numbers in fields of a tensor
//! (docs/formats/onnx.md 4).

use alloc::format;
use alloc::vec::Vec;

use super::element_type::OnnxType;
use super::protobuf::{FieldValue, Numbers, read_field};
use super::tensor::number_count;
use crate::container::foreign::window::{Stop, Window};
use crate::dtype::Dtype;
use crate::{Error, Result, Rule, bytes};

/// Decodes the `count` elements of a tensor whose message is `message`.
///
/// # Errors
/// [`Rule::OnnxValue`] for a number that is no element of the type, and
/// [`Rule::OnnxLength`] for another number of elements.
pub(super) fn decode(message: &[u8], element: OnnxType, count: u64) -> Result<Vec<u8>> {
    let len_bytes = message.len() as u64;
    let window = Window::new(0, message, len_bytes);
    let field = element.field();
    let expected = number_count(element, count);
    // Each number has at least one byte.
    let most = expected.min(len_bytes);
    let mut sink = Sink {
        element,
        out: bytes::with_capacity(most.saturating_mul(number_bytes(element)))?,
        count: 0,
    };
    let mut at = 0;
    while at < len_bytes {
        let found = read_field(&window, at, len_bytes).map_err(not_here)?;
        at = found.end;
        if found.number != field.number() {
            continue;
        }
        match (found.value, field.fixed_bytes()) {
            (FieldValue::Number(number), None) => sink.number(number)?,
            (FieldValue::Bytes(range), None) => {
                let mut numbers = Numbers::new(bytes::part(message, range.clone()), range.start);
                while !numbers.is_empty() {
                    sink.number(numbers.next()?)?;
                }
            }
            (FieldValue::Fixed(_, range), Some(width)) if range.end - range.start == width => {
                sink.fixed(bytes::part(message, range), width);
            }
            (FieldValue::Bytes(range), Some(width)) => {
                sink.fixed(bytes::part(message, range), width);
            }
            // Numbers of another length are unknown fields.
            (FieldValue::Number(_) | FieldValue::Fixed(..), _) => {}
        }
    }
    if sink.count != expected {
        let detail = format!("it has {} values instead of {expected}", sink.count);
        return Err(Error::malformed(Rule::OnnxLength, detail));
    }
    Ok(sink.out)
}

/// Returns the length in bytes of a decoded number.
fn number_bytes(element: OnnxType) -> u64 {
    match (element.field().fixed_bytes(), element) {
        (Some(width), _) => width,
        (None, OnnxType::Narrow(_)) => 1,
        (None, OnnxType::Whole(dtype)) => dtype.bits() / 8,
    }
}

/// Converts the wish for more bytes into an error: the message is in memory.
fn not_here(stop: Stop) -> Error {
    match stop {
        Stop::Refused(error) => error,
        Stop::Needs(_) => Error::invalid_input("these are not the bytes of the tensor"),
    }
}

/// The elements that have been decoded.
struct Sink {
    element: OnnxType,
    out: Vec<u8>,
    count: u64,
}

impl Sink {
    fn fixed(&mut self, numbers: &[u8], width: u64) {
        self.out.extend_from_slice(numbers);
        self.count += numbers.len() as u64 / width;
    }

    fn number(&mut self, number: u64) -> Result<()> {
        let width = number_bytes(self.element);
        let most = match self.element {
            OnnxType::Whole(dtype @ (Dtype::I8 | Dtype::I16 | Dtype::I32)) => {
                return self.signed(number, dtype.bits());
            }
            OnnxType::Whole(Dtype::Bool) => 1,
            _ => u64::MAX >> (64 - 8 * width),
        };
        if number > most {
            return Err(self.out_of_range(number));
        }
        self.push(number, width);
        Ok(())
    }

    /// Adds a signed element of `bits` bits. The format stores it as a number of
    /// 32 bits, whose upper half some writers leave out.
    fn signed(&mut self, number: u64, bits: u64) -> Result<()> {
        let value = match u32::try_from(number) {
            Ok(low) => i64::from(low.cast_signed()),
            Err(_) => number.cast_signed(),
        };
        let half = 1i64 << (bits - 1);
        if !(-half..half).contains(&value) {
            return Err(self.out_of_range(number));
        }
        self.push(value.cast_unsigned(), bits / 8);
        Ok(())
    }

    fn push(&mut self, number: u64, width: u64) {
        let all = number.to_le_bytes();
        self.out.extend(all.iter().take(bytes::index(width)));
        self.count += 1;
    }

    fn out_of_range(&self, number: u64) -> Error {
        let detail = format!(
            "the value {} is none of its type {}",
            number.cast_signed(),
            self.element
                .narrow_name()
                .unwrap_or(self.element.dtype().name())
        );
        Error::malformed(Rule::OnnxValue, detail)
    }
}
