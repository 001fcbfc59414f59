//! Who tells whether the network is there when the API is not: the default gateways and the config server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use ::node::trial::Witness as Found;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::net::TcpStream;

use super::CONNECT;

/// Where a gateway may answer, if only with a refusal: the config server's port first, which many firewalls drop, then what
/// routers listen on.
const PORTS: [u16; 5] = [22623, 53, 443, 80, 22];
/// How much later the next port is asked. A gateway that answers does so within milliseconds, at its first port; one that
/// drops all of them must not hold up an update for the time limits of all of them together.
const STAGGER: Duration = Duration::from_millis(300);
/// How long the others may still take once one has answered.
const OTHERS: Duration = Duration::from_millis(500);

/// Where witnesses are looked for before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// The default gateways of this network namespace, of both families, and the config server.
    Network,
    /// Whoever listens at `host:port`.
    At(String),
    /// Nobody: a simulated host shares its network with whoever simulates it, whose gateway is not asked.
    Nobody,
}

impl Witness {
    /// Addresses, one group for each possible witness.
    pub(super) fn candidates(&self, config_server: Option<String>) -> Vec<Vec<String>> {
        match self {
            Self::At(address) => vec![vec![address.clone()]],
            Self::Network => {
                let read = |path| std::fs::read_to_string(path).unwrap_or_default();
                let v4 = gateway(&read("/proc/net/route")).map(|address| address.to_string());
                let v6 = gateway_v6(&read("/proc/net/ipv6_route"));
                let ports = |host: String| PORTS.map(|port| format!("{host}:{port}")).to_vec();
                v4.into_iter().chain(v6).map(ports).chain(config_server.map(|address| vec![address])).collect()
            }
            Self::Nobody => Vec::new(),
        }
    }
}

/// One of each group, where one answers within `limit`. Those that do not answer hold nobody up once another has.
pub(super) async fn those_that_answer(groups: Vec<Vec<String>>, limit: Duration) -> Vec<Found> {
    let mut asked: FuturesUnordered<_> = groups.into_iter().map(first_that_answers).collect();
    let mut found = Vec::new();
    let mut until = tokio::time::Instant::now() + limit;
    // Who has answered by then counts, whoever is still asked.
    while let Ok(Some(answer)) = tokio::time::timeout_at(until, asked.next()).await {
        if answer.is_some() && found.is_empty() {
            until = until.min(tokio::time::Instant::now() + OTHERS);
        }
        found.extend(answer);
    }
    found
}

/// Each a little after the one before: a gateway is asked at its first port only, as a rule, and does not take this for a scan.
async fn first_that_answers(candidates: Vec<String>) -> Option<Found> {
    let ask = |(place, address): (u32, String)| async move {
        tokio::time::sleep(STAGGER * place).await;
        match ask(&address).await {
            Answer::Accepted => Some(Found { address, accepts: true, beside_api: false }),
            Answer::Refused => Some(Found { address, accepts: false, beside_api: false }),
            Answer::None => None,
        }
    };
    let mut asked: FuturesUnordered<_> = (0..).zip(candidates).map(ask).collect();
    while let Some(answer) = asked.next().await {
        if answer.is_some() {
            return answer;
        }
    }
    None
}

/// Whether one of these answers as it did before.
pub(super) async fn any_answers(witnesses: &[Found]) -> bool {
    let ask = |witness: Found| async move {
        match ask(&witness.address).await {
            Answer::Accepted => true,
            Answer::Refused => !witness.accepts,
            Answer::None => false,
        }
    };
    let mut asked: FuturesUnordered<_> = witnesses.iter().cloned().map(ask).collect();
    while let Some(answers) = asked.next().await {
        if answers {
            return true;
        }
    }
    false
}

enum Answer {
    Accepted,
    /// Something is there, or a firewall that refuses in its name.
    Refused,
    None,
}

async fn ask(address: &str) -> Answer {
    let connected = async {
        for place in tokio::net::lookup_host(scoped(address)?).await.ok()? {
            // This host itself answers whatever becomes of the network.
            if is_own(place) {
                continue;
            }
            match TcpStream::connect(place).await {
                Ok(_) => return Some(Answer::Accepted),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return Some(Answer::Refused),
                Err(_) => {}
            }
        }
        None
    };
    tokio::time::timeout(CONNECT, connected).await.ok().flatten().unwrap_or(Answer::None)
}

/// `[fe80::1%eth0]:53` with the index of its interface, which is what the standard library reads. An interface may have
/// another one after a boot.
fn scoped(address: &str) -> Option<String> {
    let Some((host, rest)) = address.split_once('%') else { return Some(address.to_owned()) };
    let (interface, port) = rest.split_once(']')?;
    let index = std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).ok()?;
    Some(format!("{host}%{}]{port}", index.trim()))
}

/// Whether the kernel would speak to this address from itself. No packet is sent. The loopback is asked only where an address
/// was given, as tests do.
fn is_own(place: SocketAddr) -> bool {
    let any: IpAddr = if place.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(place).and_then(|()| socket.local_addr()));
    !place.ip().is_loopback() && from.is_ok_and(|from| from.ip() == place.ip())
}

/// The first default gateway in the kernel's routing table of IPv4.
fn gateway(table: &str) -> Option<Ipv4Addr> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_default = fields.get(1) == Some(&"00000000");
        let number = u32::from_str_radix(fields.get(2)?, 16).ok()?;
        (is_default && number != 0).then(|| Ipv4Addr::from(number.to_le_bytes()))
    })
}

/// The first default gateway in that of IPv6, in brackets, with its interface where its address alone says nothing.
fn gateway_v6(table: &str) -> Option<String> {
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_default = fields.get(1) == Some(&"00") && fields.first()?.bytes().all(|digit| digit == b'0');
        let address = Ipv6Addr::from(u128::from_str_radix(fields.get(4)?, 16).ok()?);
        let interface = fields.get(9)?;
        let zone = if address.is_unicast_link_local() { format!("%{interface}") } else { String::new() };
        (is_default && !address.is_unspecified()).then(|| format!("[{address}{zone}]"))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn accepts(address: &str) -> Found {
        Found { address: address.to_owned(), accepts: true, beside_api: false }
    }

    fn refuses(address: &str) -> Found {
        Found { address: address.to_owned(), accepts: false, beside_api: false }
    }

    #[tokio::test]
    async fn a_gateway_is_asked_at_one_port_when_that_answers() {
        let [first, second] = [TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0")].map(Result::unwrap);
        let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let candidates = vec!["127.0.0.1:1".to_owned(), address(&first), address(&second)];
        assert_eq!(first_that_answers(candidates).await, Some(refuses("127.0.0.1:1")), "a refusal is an answer");
        let found = first_that_answers(vec![address(&first), address(&second)]).await;
        assert_eq!(found, Some(accepts(&address(&first))));
        second.set_nonblocking(true).unwrap();
        assert!(second.accept().is_err(), "nobody has knocked there");
    }

    /// A listener that answers nobody, and what keeps it so.
    async fn silent() -> (tokio::net::TcpListener, [TcpStream; 2], String) {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // The queue of a listener that nobody serves has two places.
        let queued = [TcpStream::connect(&address).await.unwrap(), TcpStream::connect(&address).await.unwrap()];
        (listener, queued, address)
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_drops_every_port_is_given_up_soon() {
        let (_listener, _queued, address) = silent().await;
        let begun = tokio::time::Instant::now();
        assert_eq!(first_that_answers(vec![address; PORTS.len()]).await, None);
        assert_eq!(begun.elapsed().as_millis(), (CONNECT + 4 * STAGGER).as_millis());
    }

    #[tokio::test]
    async fn the_config_server_is_a_witness_where_the_gateway_drops_everything() {
        let (_listener, _queued, gateway) = silent().await;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let groups = vec![vec![gateway], vec![server.clone()]];
        // The limit of a change that nothing is told of ends before the others were waited for.
        for limit in [super::super::SOON, super::super::LATE] {
            assert_eq!(those_that_answer(groups.clone(), limit).await, [accepts(&server)], "{limit:?}");
        }
    }

    #[tokio::test]
    async fn one_that_took_connections_and_now_refuses_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert!(any_answers(&[accepts(&address)]).await);
        drop(listener);
        assert!(!any_answers(&[accepts(&address)]).await, "a firewall of this host refuses in its name");
        assert!(any_answers(&[accepts(&address), refuses("127.0.0.1:1")]).await, "one that answers is enough");
    }

    #[test]
    fn default_gateways_of_both_families_are_found() {
        let v4 = "Iface\tDestination\tGateway\tFlags\neth0\t0000000A\t00000000\t0001\neth0\t00000000\t0100000A\t0003\n";
        assert_eq!(gateway(v4), Some(Ipv4Addr::new(10, 0, 0, 1)));
        let zero = "0".repeat(32);
        let route = |length: &str, via: &str| format!("{zero} {length} {zero} 00 {via} 00000400 1 0 00450003 eth0\n");
        let local = "fe800000000000000000000000000001";
        let reject = route("00", &zero);
        assert_eq!(gateway_v6(&(reject + &route("00", local))), Some("[fe80::1%eth0]".to_owned()));
        let global = "fd000000000000000000000000000001";
        assert_eq!(gateway_v6(&route("00", global)), Some("[fd00::1]".to_owned()));
        assert_eq!(gateway_v6(&route("40", global)), None);
    }

    #[test]
    fn a_link_local_address_is_asked_through_its_interface() {
        assert_eq!(scoped("[fe80::1%lo]:53"), Some("[fe80::1%1]:53".to_owned()));
        assert_eq!(scoped("[fe80::1%gone0]:53"), None);
        assert!("[fe80::1%1]:53".parse::<SocketAddr>().is_ok());
        assert_eq!(scoped("10.0.0.1:53"), Some("10.0.0.1:53".to_owned()));
    }
}
