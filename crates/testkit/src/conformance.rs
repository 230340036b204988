//! One test for every case.

use std::sync::Arc;
use std::time::Duration;

use crate::case::Case;
use crate::need::Means;
use crate::stage::Stage;
use crate::subject::Subject;
use crate::table::CASES;

/// A case that takes longer than this hangs.
const LONGEST_CASE: Duration = Duration::from_secs(180);

/// Makes one test of every case for the engine that the expression describes, and one that fails when the engine
/// promises what is not tested.
///
/// `conformance!(subject)`, or `conformance!(subject, taker: connect)` with an `async fn connect(url: String) -> Locks`
/// for engines that several processes share. The expression gives a [`Subject`] and is evaluated once a case. Use it
/// once, at the top of a test file.
#[macro_export]
macro_rules! conformance {
    ($subject:expr) => {
        mod conformance {
            #[allow(unused_imports, reason = "the subject's expression may need them")]
            use super::*;

            fn taker_entry() -> Option<&'static str> {
                None
            }
            $crate::every_case!(tests(|| ::std::sync::Arc::new($subject)));
        }
    };
    ($subject:expr, taker: $connect:path) => {
        mod conformance {
            #[allow(unused_imports, reason = "the subject's expression may need them")]
            use super::*;

            /// Not a test: what the suite starts as a separate process.
            #[test]
            fn taker() {
                $crate::serve(|url| Box::pin($connect(url)));
            }

            fn taker_entry() -> Option<&'static str> {
                Some(concat!(module_path!(), "::taker"))
            }
            $crate::every_case!(tests(|| ::std::sync::Arc::new($subject)));
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    (($subject:expr) $($section:ident { $($name:ident [$($need:ident),+] $line:literal;)+ })+) => {
        /// Nothing is promised that no case exercises, and nothing exercised that is not promised.
        #[test]
        fn completeness() {
            let subject = $subject;
            $crate::complete(subject(), taker_entry().is_some());
        }

        $(mod $section {
            #[allow(unused_imports, reason = "the subject's expression may need them")]
            use super::*;
            $(
                #[doc = $line]
                #[test]
                fn $name() {
                    let subject = $subject;
                    let test = concat!(module_path!(), "::", stringify!($name));
                    $crate::run(subject(), stringify!($section), stringify!($name), test, taker_entry());
                }
            )+
        })+
    };
}

/// Runs one case on a subject, or says why it is left out.
///
/// # Panics
/// When the case fails.
pub fn run(subject: Arc<dyn Subject>, section: &str, name: &str, test: &str, taker: Option<&str>) {
    let case = CASES.iter().find(|case| case.section == section && case.name == name);
    let case = case.expect("tests are made from the table of cases");
    let (guarantees, means) = (subject.guarantees(), Means::of(&*subject, taker.is_some()));
    let missing = case.missing(&guarantees, &means);
    if let Some(reason) = left_out(case, &missing) {
        eprintln!("{}: {reason}", guarantees.engine);
        return;
    }
    let stage = Stage::new(subject, case, without_crate(test), taker.map(without_crate));
    block_on(async {
        if tokio::time::timeout(LONGEST_CASE, (case.body)(stage)).await.is_err() {
            panic!("{case:?} hangs: it was not over after {LONGEST_CASE:?}");
        }
    });
}

/// The harness calls tests by their path without the crate.
fn without_crate(path: &str) -> String {
    path.split_once("::").map_or(path, |(_, test)| test).to_owned()
}

pub(crate) fn left_out(case: &Case, missing: &[crate::need::Need]) -> Option<String> {
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    (!missing.is_empty()).then(|| format!("{case:?} is left out: it needs {}", missing.join(", ")))
}

/// Runs a case on threads of its own, as a program would.
pub(crate) fn block_on<T>(case: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be started").block_on(case)
}
