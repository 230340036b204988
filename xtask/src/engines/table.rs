//! The servers, as data.

use rustix::process::Signal;

use super::server::{Origin, Probe, Program, Server};

/// All of them.
pub(crate) const SERVERS: &[Server] = &[REDIS, MYSQL, POSTGRES, ZOOKEEPER, ETCD, CONSUL];

/// Makes the certificates of the tests with TLS.
const OPENSSL: Program = Program { name: "openssl", places: &["openssl"] };
/// Makes the private environments of the clients that others use. Debian packages that part of Python apart.
const PYTHON: Program = Program { name: "python3", places: &["python3"] };

const REDIS: Server = Server {
    name: "redis",
    variable: "LOCKHOUSE_TEST_REDIS",
    url: "redis://127.0.0.1:{port}",
    origin: Origin::Packages(&["redis-server", "openssl", "python3-venv"]),
    programs: &[Program { name: "redis-server", places: &["redis-server"] }, OPENSSL, PYTHON],
    account: None,
    files: &[],
    prepare: &[],
    start: &[
        "{redis-server}",
        "--port",
        "{port}",
        "--bind",
        "127.0.0.1",
        "--dir",
        "{dir}",
        "--save",
        "",
        "--appendonly",
        "no",
    ],
    probe: Probe { ask: b"PING\r\n", is_answer: |answer| answer.starts_with(b"+PONG") },
    stop: Signal::TERM,
    orphaned: "KILL",
};

/// MariaDB, which is what Debian packages. The variable may name a MySQL server just as well.
const MYSQL: Server = Server {
    name: "mysql",
    variable: "LOCKHOUSE_TEST_MYSQL",
    url: "mysql://root@127.0.0.1:{port}/lockhouse",
    origin: Origin::Packages(&["mariadb-server"]),
    programs: &[
        Program { name: "mariadbd", places: &["mariadbd"] },
        Program { name: "mariadb-install-db", places: &["mariadb-install-db"] },
    ],
    account: None,
    files: &[("init.sql", "CREATE DATABASE IF NOT EXISTS lockhouse;\n")],
    // `--no-defaults` must come first, or it is not understood.
    prepare: &[&[
        "{mariadb-install-db}",
        "--no-defaults",
        "--datadir={dir}/data",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--user={user}",
    ]],
    // Connections are answered only after the init file was run, so a greeting means that the database is there.
    start: &[
        "{mariadbd}",
        "--no-defaults",
        "--user={user}",
        "--datadir={dir}/data",
        "--port={port}",
        "--bind-address=127.0.0.1",
        "--socket={dir}/my.sock",
        "--pid-file={dir}/my.pid",
        "--init-file={dir}/init.sql",
        "--max-connections=500",
        "--skip-name-resolve",
    ],
    // The server speaks first: four bytes of length and number, then version 10 of the protocol.
    probe: Probe { ask: b"", is_answer: |answer| answer.get(4) == Some(&10) },
    stop: Signal::TERM,
    orphaned: "KILL",
};

const POSTGRES: Server = Server {
    name: "postgres",
    variable: "LOCKHOUSE_TEST_POSTGRES",
    url: "postgres://postgres@127.0.0.1:{port}/postgres",
    origin: Origin::Packages(&["postgresql", "pgbouncer"]),
    programs: &[
        Program { name: "postgres", places: &["/usr/lib/postgresql/*/bin/postgres", "postgres"] },
        Program { name: "initdb", places: &["/usr/lib/postgresql/*/bin/initdb", "initdb"] },
        // A pooler, of which the tests show that it is refused.
        Program { name: "pgbouncer", places: &["/usr/sbin/pgbouncer", "pgbouncer"] },
    ],
    account: Some("postgres"),
    files: &[],
    prepare: &[&[
        "{initdb}",
        "-D",
        "{dir}/data",
        "-A",
        "trust",
        "-U",
        "postgres",
        "--no-sync",
        "--no-locale",
        "--encoding=UTF8",
    ]],
    start: &[
        "{postgres}",
        "-D",
        "{dir}/data",
        "-p",
        "{port}",
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "unix_socket_directories={dir}",
        "-c",
        "max_connections=500",
    ],
    // A start-up message of protocol 3.0. While the server recovers it answers with an error; `R` means let in.
    probe: Probe {
        ask: b"\0\0\0\x29\0\x03\0\0user\0postgres\0database\0postgres\0\0",
        is_answer: |answer| answer.starts_with(b"R"),
    },
    // Fast shutdown. TERM would wait for every client to leave, KILL would leave shared memory behind.
    stop: Signal::INT,
    orphaned: "INT",
};

const ZOOKEEPER: Server = Server {
    name: "zookeeper",
    variable: "LOCKHOUSE_TEST_ZOOKEEPER",
    url: "zookeeper://127.0.0.1:{port}",
    // The library without the daemon around it, and a Java without a desktop.
    origin: Origin::Packages(&["libzookeeper-java", "default-jre-headless", "python3-venv"]),
    programs: &[
        Program { name: "zookeeper.jar", places: &["/usr/share/java/zookeeper.jar"] },
        Program { name: "java", places: &["java"] },
        PYTHON,
    ],
    account: None,
    files: &[(
        "zoo.cfg",
        "tickTime=500\ndataDir={dir}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
         admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n",
    )],
    prepare: &[],
    // The jar's manifest brings the rest of the class path. The quick compiler halves the start-up time.
    start: &[
        "{java}",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        "{zookeeper.jar}",
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        "{dir}/zoo.cfg",
    ],
    probe: Probe { ask: b"srvr", is_answer: |answer| has(answer, b"Mode:") },
    stop: Signal::TERM,
    orphaned: "KILL",
};

const ETCD: Server = Server {
    name: "etcd",
    variable: "LOCKHOUSE_TEST_ETCD",
    url: "etcd://127.0.0.1:{port}",
    origin: Origin::Packages(&["etcd-server", "etcd-client", "openssl"]),
    programs: &[
        Program { name: "etcd", places: &["etcd"] },
        Program { name: "etcdctl", places: &["etcdctl"] },
        OPENSSL,
    ],
    account: None,
    files: &[],
    prepare: &[],
    start: &[
        "{etcd}",
        "--name=lockhouse",
        "--data-dir={dir}/data",
        "--listen-client-urls=http://127.0.0.1:{port}",
        "--advertise-client-urls=http://127.0.0.1:{port}",
        "--listen-peer-urls=http://127.0.0.1:{port2}",
        "--initial-advertise-peer-urls=http://127.0.0.1:{port2}",
        "--initial-cluster=lockhouse=http://127.0.0.1:{port2}",
        "--initial-cluster-state=new",
        "--logger=zap",
    ],
    probe: Probe {
        ask: b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n",
        is_answer: |answer| has(answer, b"\"health\":\"true\""),
    },
    stop: Signal::TERM,
    orphaned: "KILL",
};

const CONSUL: Server = Server {
    name: "consul",
    variable: "LOCKHOUSE_TEST_CONSUL",
    url: "consul://127.0.0.1:{port}",
    // Debian 12 has none. The one of Debian 11 is a single static program.
    origin: Origin::Unpacked { package: "consul", suite: "bullseye", into: "target/consul" },
    programs: &[Program { name: "consul", places: &["consul", "target/consul/usr/bin/consul"] }],
    account: None,
    files: &[],
    prepare: &[],
    start: &[
        "{consul}",
        "agent",
        "-dev",
        "-node=lockhouse",
        "-bind=127.0.0.1",
        "-client=127.0.0.1",
        "-http-port={port}",
        "-server-port={port2}",
        "-serf-lan-port={port3}",
        "-serf-wan-port=-1",
        "-grpc-port=-1",
        "-dns-port=-1",
        "-hcl=connect { enabled = false }",
        // The tests need sessions that end sooner than the usual least of ten seconds.
        "-hcl=session_ttl_min = \"1s\"",
    ],
    // A leader is not enough: sessions are refused until the node itself is registered with its health check.
    probe: Probe {
        ask: b"GET /v1/health/node/lockhouse HTTP/1.0\r\nHost: localhost\r\n\r\n",
        is_answer: |answer| has(answer, b"serfHealth"),
    },
    stop: Signal::TERM,
    orphaned: "KILL",
};

fn has(answer: &[u8], part: &[u8]) -> bool {
    answer.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(name: &str, answer: &[u8]) -> bool {
        let server = SERVERS.iter().find(|server| server.name == name).unwrap();
        (server.probe.is_answer)(answer)
    }

    #[test]
    fn an_answer_is_told_from_a_server_that_is_not_ready() {
        assert!(answered("redis", b"+PONG\r\n"));
        assert!(!answered("redis", b"-LOADING Redis is loading the dataset in memory\r\n"));
        assert!(answered("mysql", b"\x4a\0\0\0\x0a10.11"));
        assert!(!answered("mysql", b"\x17\0\0\x01\xff\x10\x04Too many connections"));
        assert!(answered("postgres", b"R\0\0\0\x08\0\0\0\0"));
        assert!(!answered("postgres", b"E\0\0\0\x60SFATAL\0the database system is starting up"));
        assert!(answered("zookeeper", b"Latency min/avg/max: 0/0/0\nMode: standalone\n"));
        assert!(!answered("zookeeper", b"This ZooKeeper instance is not currently serving requests\n"));
        assert!(answered("etcd", b"HTTP/1.0 200 OK\r\n\r\n{\"health\":\"true\"}"));
        assert!(!answered("etcd", b"HTTP/1.0 503 Service Unavailable\r\n\r\n{\"health\":\"false\"}"));
        assert!(answered("consul", b"HTTP/1.0 200 OK\r\n\r\n[{\"CheckID\":\"serfHealth\"}]"));
        assert!(!answered("consul", b"HTTP/1.0 200 OK\r\n\r\n[]"));
        assert!(SERVERS.iter().all(|server| !answered(server.name, b"")));
    }

    #[test]
    fn the_start_up_message_of_postgres_gives_its_own_length() {
        assert_eq!(POSTGRES.probe.ask.len(), 0x29);
    }

    #[test]
    fn the_variable_is_named_after_the_engine() {
        for server in SERVERS {
            assert_eq!(server.variable, format!("LOCKHOUSE_TEST_{}", server.name.to_uppercase()));
        }
    }
}
