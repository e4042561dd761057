//! Sizes and positions as JavaScript has them.

use zstn_core::Error;

/// JavaScript numbers hold whole numbers up to 2^53 exactly.
pub fn whole(number: f64) -> Result<u64, Error> {
    const MOST: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && (0.0..=MOST).contains(&number) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        return Ok(number as u64);
    }
    // Printing it would bring the code for decimal fractions along.
    Err(Error::invalid_input(
        "a size, position or number of a row is no whole number from 0 to 2^53",
    ))
}
