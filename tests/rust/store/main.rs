//! Object stores: every case runs in memory, on a local S3 server (moto) and on a local
//! Azure server (azurite).
//!
//! `cargo xtask test` installs and starts the servers, sets `ZSTN_MOTO` and
//! `ZSTN_AZURITE`, and includes the tests that plain `cargo test` reports as ignored.

mod answers;
mod bucket;
mod credentials;
mod faults;
mod folders;
mod interrupted;
mod objects;
mod resume;
mod verbs;
mod writers;

/// Defines a test of each case for each store.
macro_rules! on_every_store {
    ($($module:ident: $($case:ident),+;)+) => {
        mod memory {
            $($(#[test] fn $case() { super::$module::$case(&super::bucket::Bucket::memory()); })+)+
        }
        on_servers!($($module: $($case),+;)+);
    };
}

/// Defines a test of each case for each store that is a server.
macro_rules! on_servers {
    ($($module:ident: $($case:ident),+;)+) => {
        mod s3 {
            $($(
                #[test]
                #[ignore = "needs the server that `cargo xtask test` starts"]
                fn $case() { super::$module::$case(&super::bucket::Bucket::s3()); }
            )+)+
        }
        mod azure {
            $($(
                #[test]
                #[ignore = "needs the server that `cargo xtask test` starts"]
                fn $case() { super::$module::$case(&super::bucket::Bucket::azure()); }
            )+)+
        }
    };
}

on_every_store! {
    objects: reads_return_exactly_what_was_asked_for, a_replaced_object_is_noticed,
        a_deleted_object_is_noticed, nothing_is_none, small_objects_have_a_limit,
        folders_are_listed, the_top_of_a_folder_is_listed, odd_names_are_kept,
        every_length_arrives, what_exists_is_kept_unless_replacing,
        a_dropped_upload_leaves_nothing, an_aborted_upload_leaves_nothing;
    writers: a_claim_is_continued_until_it_is_released, a_folder_with_objects_is_refused,
        the_marker_of_another_attempt_is_respected, a_claim_is_discarded_with_its_objects,
        only_one_machine_has_the_claim, the_second_of_two_small_writers_loses,
        the_second_of_two_long_writers_loses;
}

mod servers {
    use super::{interrupted, objects, resume, verbs};

    on_servers! {
        objects: a_missing_container_is_named;
        resume: only_missing_parts_are_sent_again, other_bytes_are_sent_again,
            a_shorter_object_replaces_a_longer_attempt,
            parts_that_became_too_short_are_not_reused, a_damaged_journal_costs_no_bytes,
            parts_that_are_gone_are_sent_again, one_process_at_a_time,
            a_killed_process_is_continued;
        verbs: every_verb_reads_and_writes, folders_come_with_their_index_last,
            refusals_are_one_sentence, a_base_is_found_in_a_bucket,
            a_plan_is_packed_into_a_bucket, a_folder_in_a_store_is_a_hub;
        interrupted: a_folder_that_was_cut_off_is_continued, a_killed_pack_is_continued,
            a_refused_input_leaves_no_parts,
            objects_that_change_and_writers_that_lose_are_told;
    }

    // The modules of the macro are one level deeper.
    use super::bucket;
}
