//! Sizes and positions as JavaScript has them.

use zstn_core::Error;

/// Returns the whole number that a JavaScript number is: those up to 2^53 are
/// exact.
pub fn to_u64(number: f64) -> Result<u64, Error> {
    const MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && (0.0..=MAX).contains(&number) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        return Ok(number as u64);
    }
    // Printing it would bring the code for decimal fractions along.
    Err(Error::invalid_input(
        "a size, position or row is not a whole number from 0 to 2^53",
    ))
}
