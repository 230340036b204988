//! Every case, listed once: its name, what it needs, and the line of the catalogue of cases that it stands for.

use crate::case::Case;
use crate::cases;
use crate::need::Need;

/// Gives the list of cases to a macro of this crate, behind the arguments given here.
#[doc(hidden)]
#[macro_export]
macro_rules! every_case {
    ($then:ident $arguments:tt) => {
        $crate::$then! { $arguments
            exclusion {
                a_second_try_is_refused_and_changes_nothing [Excludes]
                    "second try while held is refused at once and changes nothing";
                different_names_never_block_each_other [Excludes]
                    "different names never block each other";
                take_and_give_back_many_times [Excludes, Tokens]
                    "take and give back many times in a row";
                a_hundred_tasks_are_never_two_inside [Excludes]
                    "100 tasks with 10 ms sections: never two inside, all done";
                separate_processes_lose_no_update [Processes]
                    "the same with separate processes";
                no_update_of_a_counter_is_lost [Excludes]
                    "lost-update counter: 8 workers × 100 read-sleep-write, the sum is exact";
                a_history_fits_a_mutex_that_knows_its_owner [Excludes, Tokens]
                    "a recorded history fits an owner-aware mutex model";
                tokens_grow_across_owners_and_clients [Tokens]
                    "the token grows on every free→held change, across owners and clients";
                tokens_grow_when_every_client_was_gone [TokensSurviveClients, Processes]
                    "the token grows across client restarts";
            }
            release {
                releasing_what_is_not_held_says_so [Excludes, Sabotage]
                    "releasing what is not held says so";
                a_second_release_does_not_harm_the_successor [Excludes]
                    "a second release does not harm the successor";
                a_claim_that_is_repeated_takes_one_place [Excludes]
                    "every verb can be repeated: a claim takes one place";
                a_claim_that_is_sent_twice_at_once_leaves_nothing [Excludes]
                    "every verb can be repeated: a claim that is sent twice at once leaves nothing behind";
                nobody_can_release_the_claim_of_another [Excludes]
                    "another client's claim cannot be released";
                a_release_after_expiry_leaves_the_new_holder_alone [Excludes]
                    "release after expiry leaves the new holder alone";
                a_release_that_cannot_be_confirmed_is_unknown_and_ends_renewal [CrashFrees]
                    "release while the server is unreachable returns in bounded time as unknown and renewal stops";
                a_release_whose_reply_is_lost_can_be_repeated [Excludes]
                    "a repeated release after a lost reply is safe";
                a_release_takes_out_what_is_still_on_its_way [Excludes]
                    "a release after a lost reply: what arrives later is taken out";
                renewal_never_outlives_release [Excludes]
                    "renewal never outlives release";
                a_renewal_never_revives_what_was_released [Excludes]
                    "renewal never outlives release: it revives nothing";
                a_dropped_guard_releases [Excludes]
                    "a dropped guard releases";
                closing_a_client_gives_everything_back [Excludes]
                    "closing a client gives everything back";
            }
            reentrancy {
                without_an_owner_the_second_lock_is_refused [Excludes]
                    "without an owner the second lock waits or is refused, never hangs silently";
                as_many_releases_as_locks [Excludes]
                    "n locks need n releases; a partial release keeps others out";
                entering_again_returns_the_same_token [Tokens]
                    "re-entry returns the same token";
                two_owners_of_one_process_exclude_each_other [Excludes]
                    "two owners in one process exclude each other";
                tasks_of_one_owner_share_one_claim [Excludes]
                    "two tasks of one owner make one claim between them";
                a_part_is_not_enlarged_by_entering_again [Shared]
                    "upgrade is refused, also by re-entry";
            }
            expiry {
                a_claim_that_nobody_renews_frees_itself [CrashFrees]
                    "an unrenewed claim frees itself by TTL (+ the engine's documented slack)";
                a_kept_lock_survives_three_leases [Excludes]
                    "a kept lock survives 3 × TTL";
                at_most_ends_renewal [CrashFrees]
                    "at_most ends renewal";
                no_loss_is_told_on_a_release [Excludes]
                    "no loss is told on a normal release";
                a_few_failed_renewals_are_ridden_out [Excludes]
                    "a few failed renewals are ridden out";
                a_loss_is_told_before_anybody_else_gets_in [Excludes, CrashFrees]
                    "many failed renewals: loss is told before the engine may grant again";
                a_waiter_whose_lease_ended_is_not_told_granted [Excludes]
                    "a waiter whose own lease ended while it queued is not told granted";
                an_acquire_slower_than_its_lease_is_no_grant [Excludes]
                    "an acquire slower than its TTL is not a grant and is cleaned up";
                leases_out_of_bounds_get_a_clear_answer [MinTtl]
                    "TTL of 0, 1 ms, 24 h and overflow get a clear answer";
                the_shortest_lease_works_and_a_shorter_one_is_refused [MinTtl]
                    "the shortest TTL that the engine promises works, a shorter one is refused";
                a_waiter_is_kept_in_line [Wakes]
                    "a waiter's lease is kept as well";
                renewals_of_many_are_answered_one_by_one [Excludes]
                    "one answer per claim, in their order";
            }
            linger {
                a_name_stays_taken_after_its_release [Lingers]
                    "at_least: the name stays taken after release";
                a_name_stays_taken_when_its_client_is_gone [Lingers]
                    "at_least: the name stays taken when its client is gone";
                a_name_stays_taken_when_its_process_ends [Lingers, Processes]
                    "at_least: the name stays taken when its process ends";
                a_long_hold_does_not_linger [Lingers]
                    "at_least: a hold that was longer is free at once";
                lingering_is_refused [NoLingers]
                    "at_least is refused where the engine cannot outlive the process";
            }
            waiting {
                no_patience_returns_at_once [Excludes]
                    "no patience returns at once";
                a_wait_is_neither_early_nor_late [Wakes]
                    "a 200 ms wait returns in 200 to 500 ms, never early";
                an_endless_wait_wakes_on_release [Wakes]
                    "an endless wait wakes on release";
                a_waiter_is_told_of_its_turn [Push]
                    "an endless wait wakes on release, by being told";
                a_cancelled_waiter_leaves_no_place [Wakes]
                    "a cancelled waiter leaves no place in line";
                a_wait_that_is_over_sends_nothing [Excludes]
                    "an already expired wait sends nothing";
                a_claim_whose_reply_is_lost_is_not_left_behind [CrashFrees]
                    "the claim executed but its reply lost: free again, at once or within TTL";
                a_patient_claim_asks_again_after_a_lost_reply [Excludes]
                    "the claim executed but its reply lost: asked again, in one place";
                a_lost_wake_up_strands_nobody [Wakes]
                    "a lost wake-up message does not strand a waiter";
                a_last_question_without_an_answer_is_a_wait_in_vain [Excludes]
                    "a wait that ends during a repeated question is over, not an error";
                a_panic_frees_the_lock [Excludes]
                    "a guard dropped by a panic frees the lock";
            }
            dropping {
                lock_leaves_nothing [Excludes]
                    "the future dropped after every k-th poll: lock";
                try_lock_leaves_nothing [Excludes]
                    "the future dropped after every k-th poll: try_lock";
                release_leaves_nothing [Excludes]
                    "the future dropped after every k-th poll: release";
                read_and_write_leave_nothing [Shared]
                    "the future dropped after every k-th poll: read, write, downgrade";
                semaphore_leaves_nothing [Permits]
                    "the future dropped after every k-th poll: semaphore";
                several_leave_nothing [Excludes]
                    "the future dropped after every k-th poll: several";
                campaign_leaves_nothing [Excludes]
                    "the future dropped after every k-th poll: campaign";
                a_wait_in_line_leaves_nothing [Wakes]
                    "the future dropped after every k-th poll: while it waits";
                a_wait_that_is_granted_leaves_nothing [Wakes]
                    "the future dropped after every k-th poll: while it is granted";
                a_request_on_its_way_is_taken_out_when_it_arrives [Excludes]
                    "the future dropped while the claim is still on its way";
                a_repeated_request_on_its_way_is_taken_out_too [Wakes]
                    "the future dropped while the claim is on its way once more";
            }
            fairness {
                first_come_first_served [Fair]
                    "first come, first served with 5 or more waiters";
                a_dead_waiter_at_the_head_is_skipped [Wakes, CrashFrees]
                    "a dead waiter at the head is skipped in bounded time";
                everybody_gets_a_turn [Wakes]
                    "everybody gets a turn";
                who_comes_back_stands_behind_those_who_wait [Fair]
                    "first come, first served: who comes back goes to the end";
                a_higher_priority_goes_ahead_of_waiters_and_not_of_holders [Priority]
                    "a higher priority goes ahead of waiters but never of holders";
                priorities_are_refused [NoPriority]
                    "priorities are refused where the engine has none";
                barging_excludes_all_the_same [Excludes]
                    "barging takes fairness away and nothing else";
            }
            readwrite {
                many_readers_are_in_together [Shared]
                    "many readers together";
                a_writer_is_alone [Shared]
                    "a writer alone";
                tries_are_refused_beside_a_writer [Shared]
                    "a writer alone: tries";
                a_waiting_writer_is_not_starved_by_new_readers [Shared, Fair]
                    "a waiting writer is not starved by new readers";
                a_downgrade_leaves_no_gap [Shared, Fair]
                    "downgrade leaves no gap";
                one_reader_that_vanishes_frees_only_itself [Shared]
                    "one reader's crash neither frees the others nor blocks writers past TTL";
                read_write_locks_are_refused [NoShared]
                    "read-write locks are refused where the engine has none";
            }
            semaphore {
                never_above_its_permits [Permits]
                    "never above n";
                all_permits_can_be_had [Permits]
                    "n is reached";
                more_than_there_are_is_a_mistake [Permits]
                    "more permits than n are refused as a mistake";
                clients_that_disagree_about_its_size_are_told [Permits]
                    "clients that disagree about n get Conflict";
                a_vanished_holders_permits_come_back [Permits]
                    "a crashed holder's permits come back";
                a_large_request_is_not_starved_by_small_ones [Permits, Fair]
                    "the first that does not fit stops everybody behind it";
                semaphores_are_refused [NoPermits]
                    "semaphores are refused where the engine has none";
            }
            several {
                all_are_taken_and_given_back [Excludes]
                    "several at once, all of them";
                a_failure_at_any_gives_back_the_rest [Excludes]
                    "failure at the k-th gives back the first k−1";
                an_error_at_any_gives_back_the_rest [Excludes]
                    "failure at the k-th gives back the first k−1, by an error";
                opposite_orders_never_deadlock [Excludes]
                    "opposite orders never deadlock";
                one_budget_for_all [Wakes]
                    "several within one time budget";
                the_loss_of_any_is_told [Excludes]
                    "the loss of any is told";
            }
            holder {
                a_killed_holders_lock_is_free_in_time [Processes, CrashFrees]
                    "kill -9: the next holder is in within TTL + 1 s; renewal dies with the process";
                a_killed_holders_lock_is_free_at_once [Processes, CrashFreesAtOnce]
                    "kill -9: sooner where promised";
                a_holder_that_returns_hands_over_at_once [Processes, Wakes]
                    "a clean exit hands over at once";
                a_killed_waiter_blocks_nobody [Processes]
                    "kill -9 of a waiter";
                a_holder_that_stood_still_finds_out_at_its_first_look [Processes, Cells]
                    "SIGSTOP past the lease, then SIGCONT: the first check() says lost, the stale token is refused";
                tokens_grow_after_every_process_was_killed [TokensSurviveCrash, Processes]
                    "the token grows after every process was killed";
                a_stale_token_is_refused_by_a_cell [Cells]
                    "the stale token is refused by a cell";
                a_blocked_runtime_loses_nothing [Excludes]
                    "the caller's async runtime blocked for 3 × TTL: still held";
                a_vanished_holder_is_freed_in_bounds [CrashFrees]
                    "the host vanishes (connection cut silently): free within the documented bound";
                an_evicted_holder_is_told_before_anybody_gets_in [Excludes]
                    "eviction of a holder: told before anybody gets in";
                an_evicted_holder_that_lets_go_frees_the_lock [Excludes]
                    "eviction of a holder: free when it lets go";
                an_evicted_waiter_is_told [Excludes]
                    "eviction of a waiter: told";
                an_evicted_waiter_is_told_although_its_wake_up_is_lost [Excludes]
                    "eviction of a waiter: told, also when its wake-up is lost";
                nobody_is_evicted_by_mistake [Excludes]
                    "eviction of nobody";
            }
            server {
                what_an_administrator_deletes_is_told [Excludes, Sabotage]
                    "an administrator deletes key, session, row, node or connection: loss told";
                a_waiter_that_was_deleted_gets_in_line_again [Wakes, Sabotage]
                    "an administrator deletes a waiter: it is not stranded";
                a_server_that_is_down_at_the_start_is_a_clear_error [Server]
                    "down at start: a clear error in bounded time";
                a_restart_keeps_a_lock_or_tells_of_its_loss [Server]
                    "restarted while held: kept, or loss told";
                tokens_grow_across_a_restart [TokensSurviveCrash, Server]
                    "the token grows across server restarts";
                a_server_that_stands_still_costs_the_lock_in_time [Server]
                    "paused: loss told in time, and it works again afterwards";
                an_election_shorter_than_a_lease_loses_nothing [Server, Members]
                    "leader killed or paused with an election shorter than TTL: renewed, and no false loss";
                tokens_grow_across_the_loss_of_members [TokensSurviveMembers, Server, Members]
                    "the token grows across the loss of members";
                without_a_majority_nobody_gets_in_and_the_holder_is_told [Server, Members]
                    "quorum lost: acquire errors, holder told before TTL; and back";
            }
            connection {
                every_cut_is_an_error_and_says_rightly_whether_it_happened [Excludes]
                    "closed, reset, blackholed and half-open are each definitely not or unknown, rightly";
                a_mended_connection_works_as_before [Excludes]
                    "a broken pooled connection poisons nothing";
                a_waiter_is_told_of_its_turn_after_a_reconnect [Push]
                    "after reconnecting, watches and subscriptions work again";
                a_short_cut_costs_no_lock [Excludes]
                    "a cut shorter than the lease costs no lock";
            }
            names {
                names_that_look_alike_are_different_locks [Excludes]
                    "case matters; look-alikes are different locks; what looks like SQL, Lua, paths or ranges does nothing";
                a_survey_shows_what_is_under_a_prefix_and_nothing_else [Excludes]
                    "a survey shows what is under a prefix";
                a_survey_shows_who_holds_and_who_waits [Excludes]
                    "a survey shows who holds and who waits";
                the_longest_name_is_fine_and_a_longer_one_is_refused [Excludes]
                    "255 bytes fine, 256 refused";
                bad_names_are_refused_before_anything_is_sent [Excludes]
                    "bad names are refused before anything is sent";
                a_name_in_use_as_a_mutex_is_a_conflict_as_a_semaphore [Permits]
                    "a name in use as a mutex is a Conflict as a semaphore";
                a_name_in_use_as_a_mutex_is_a_conflict_as_a_read_write_lock [Shared]
                    "a name in use as a mutex is a Conflict as a read-write lock";
            }
            load {
                many_cycles_leave_nothing_behind [Excludes]
                    "after 5 000 cycles no key, row, node, channel, task, connection or file descriptor is left over";
                many_try_and_release_on_one_name [Excludes]
                    "16 × 10 000 try-and-release on one name";
                a_thousand_waiters_all_get_their_turn [Wakes]
                    "1 000 waiters on one lock all get their turn";
                a_grant_costs_the_same_however_many_wait [Wakes]
                    "10 000 waiters: the cost of a grant does not grow";
            }
            cells {
                a_cell_is_written_only_at_the_version_that_was_read [Cells]
                    "a cell is an optimistic lock";
                a_cell_keeps_any_bytes [Cells]
                    "a cell keeps any bytes";
                no_concurrent_update_is_lost [Cells]
                    "no concurrent update of a cell is lost";
                an_older_token_is_refused_once_a_newer_one_was_seen [Cells]
                    "a cell refuses a token older than the newest it has seen";
                a_write_whose_reply_is_lost_is_written_once [Cells]
                    "a write whose reply is lost is written once";
                a_dropped_update_is_written_wholly_or_not_at_all [Cells]
                    "the future dropped after every k-th poll: cell update";
                no_update_is_lost_while_holders_stand_still [Cells]
                    "a cell that checks the token loses no update while holders are paused past their lease";
                cells_are_refused [NoCells]
                    "cells are refused where the engine has none";
            }
            election {
                one_leads_and_all_can_see_who [Excludes, Wakes]
                    "one leads, and all can see who";
                an_observer_sees_every_change_that_lasts [Excludes]
                    "an observer sees every change that lasts";
                a_leader_that_vanishes_is_told_and_replaced [CrashFrees]
                    "a leader that vanishes is told and replaced";
                a_candidate_that_gives_up_leaves_the_line [Wakes]
                    "a candidate that gives up leaves the line";
            }
        }
    };
}

macro_rules! table {
    (() $($section:ident { $($name:ident [$($need:ident),+] $line:literal;)+ })+) => {
        /// Every case of the suite.
        pub const CASES: &[Case] = &[$($(Case {
            section: stringify!($section),
            name: stringify!($name),
            line: $line,
            needs: &[$(Need::$need),+],
            body: |stage| Box::pin(cases::$section::$name(stage)),
        }),+),+];
    };
}
pub(crate) use table;
every_case!(table());
