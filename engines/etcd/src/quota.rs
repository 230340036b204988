//! How much a member may keep: when it is full, no lock can be taken.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A member that does not show its metrics at once does not show them to us.
const LIMIT: Duration = Duration::from_secs(1);
/// Metrics are some hundred kilobytes.
const LARGEST: u64 = 8 << 20;
/// What etcd calls it there.
const METRIC: &str = "etcd_server_quota_backend_bytes ";

/// The quota as a member's metrics tell it: before 3.6 its status does not. `None` where they are not to be had, such
/// as through TLS.
pub(crate) async fn from_metrics(host: &str) -> Option<i64> {
    let asked = tokio::time::timeout(LIMIT, async {
        let mut stream = TcpStream::connect(host).await?;
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(LARGEST).read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    });
    read(&String::from_utf8_lossy(&asked.await.ok()?.ok()?))
}

/// The quota in a page of metrics: a number such as `2.147483648e+09`.
fn read(metrics: &str) -> Option<i64> {
    let number: f64 = metrics.lines().find_map(|line| line.strip_prefix(METRIC))?.trim().parse().ok()?;
    (number >= 1.0 && number <= i64::MAX as f64).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_found_among_other_metrics() {
        let page =
            "# TYPE etcd_server_quota_backend_bytes gauge\netcd_server_quota_backend_bytes 2.147483648e+09\nx 1\n";
        assert_eq!(read(page), Some(2 << 30));
        assert_eq!(read("etcd_server_quota_backend_bytes 0\n"), None);
        assert_eq!(read("x 1\n"), None);
    }
}
