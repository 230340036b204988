//! Lets sixteen buyers loose on ten items, in every way, and prints what came of it.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use stock::{BUYERS, ITEMS, Result, Way, rush, shelves};

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args()
        .nth(1)
        .ok_or("give the URL of a database, such as mysql://root@127.0.0.1:3306/shop or postgres://…")?;
    let (shelves, locks) = (shelves(&url).await?, lockhouse::connect(&url).await?);
    println!("{BUYERS} buyers, {ITEMS} items");
    for way in Way::ALL {
        let outcome = rush(&shelves, &locks, way, "teapot").await?;
        let verdict = if outcome.is_exact() { "right" } else { "WRONG" };
        println!("{way:?}: {} sold, {} left: {verdict}", outcome.sold, outcome.left);
    }
    Ok(())
}
