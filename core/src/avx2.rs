//! Functions that are compiled for AVX2 and BMI: whether the processor has
//! both, and the call into them.

cpufeatures::new!(has, "avx2", "bmi1", "bmi2", "popcnt");

/// Returns whether functions with these features may be called.
#[inline]
pub fn is_there() -> bool {
    has::get()
}

/// Calls a function that has `#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]`,
/// or fewer of these features, and has no other demands. If the processor does not
/// have them, it evaluates what follows `else` instead.
macro_rules! call {
    ($function:expr, $($argument:expr),+; else $other:expr) => {
        if $crate::avx2::is_there() {
            // SAFETY: the processor has the features of the function.
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
