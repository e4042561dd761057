//! Runtime detection of AVX2 and BMI, and calls of functions that are compiled for
//! them.

cpufeatures::new!(has, "avx2", "bmi1", "bmi2", "popcnt");

/// Returns whether the processor supports AVX2, BMI1, BMI2 and POPCNT.
#[inline]
pub fn is_there() -> bool {
    has::get()
}

/// Calls a function with the attribute `#[target_feature(enable =
/// "avx2,bmi1,bmi2,popcnt")]` or fewer of these features. The function must have
/// no other safety requirements. If the processor does not support all four
/// features, the macro evaluates the expression after `else` instead.
macro_rules! call {
    ($function:expr, $($argument:expr),+; else $other:expr) => {
        if $crate::avx2::is_there() {
            // SAFETY: `is_there` returned true, so the processor supports every
            // feature that this macro allows `$function` to enable, and the
            // function has no other requirements.
            #[allow(unsafe_code)]
            unsafe {
                $function($($argument),+)
            }
        } else {
            $other
        }
    };
}
pub(crate) use call;
