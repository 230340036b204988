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
