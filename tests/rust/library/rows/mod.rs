//! Reading some rows of a tensor fetches the right ranges and returns the right bytes,
//! or an error if the file is damaged (docs/formats/zstn-integrity.md 5).

mod damage;
mod differences;
mod plan;
mod read;
mod table;
mod watched;
