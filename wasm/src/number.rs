//! Conversion of sizes and positions from JavaScript numbers.

use zstn_core::Error;

/// Returns a JavaScript number as an integer. JavaScript numbers are exact integers up to
/// 2^53; anything else is an error.
pub fn to_u64(number: f64) -> Result<u64, Error> {
    const MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && (0.0..=MAX).contains(&number) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        return Ok(number as u64);
    }
    // The message does not contain the number, because formatting it would add the code
    // for decimal fractions to the module.
    Err(Error::invalid_input(
        "a size, position or row is not a whole number from 0 to 2^53",
    ))
}
