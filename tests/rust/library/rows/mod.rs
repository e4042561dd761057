//! Some rows of a tensor: the right bytes from the right ranges, and an error
//! where the file is damaged (docs/formats/zstn-integrity.md 5).

mod damage;
mod differences;
mod plan;
mod read;
mod table;
mod watched;
