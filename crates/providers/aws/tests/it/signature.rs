//! Requests are signed as AWS checks it. moto does not check, so the signature is computed again here, from the rules.

use ring::{digest, hmac};

use crate::edge::Arrived;
use crate::world::{SECRET_KEY, World};

#[tokio::test]
async fn requests_are_signed_for_their_body_service_and_region() {
    let Some(world) = World::start("signed").await else { return };
    world.create(&world.machine("one", &world.spec())).await.unwrap();
    for action in ["DescribeSubnets", "RunInstances"] {
        let arrived = world.edge.arrived(action).pop().unwrap();
        let header = |name: &str| arrived.headers.get(name).unwrap().to_str().unwrap().to_owned();
        let authorization = header("authorization");
        let date = header("x-amz-date");
        let scope = format!("{}/us-east-1/ec2/aws4_request", &date[..8]);
        assert!(authorization.contains(&format!("Credential={}/{scope},", world.account())), "{authorization}");
        let signed = authorization.split_once("SignedHeaders=").unwrap().1.split(',').next().unwrap();
        assert!(["content-type", "host", "x-amz-date"].iter().all(|name| signed.contains(name)), "{signed}");
        let expected = signature(&arrived, signed, &date, &scope);
        assert!(authorization.ends_with(&format!("Signature={expected}")), "{authorization}");
    }
}

fn signature(arrived: &Arrived, signed: &str, date: &str, scope: &str) -> String {
    let headers = signed.split(';').map(|name| {
        let value = arrived.headers.get(name).unwrap().to_str().unwrap();
        format!("{name}:{}\n", value.trim())
    });
    let headers: String = headers.collect();
    let canonical = format!("POST\n/\n\n{headers}\n{signed}\n{}", sha256(&arrived.body));
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", sha256(&canonical));
    let mut key = format!("AWS4{SECRET_KEY}").into_bytes();
    for part in scope.split('/') {
        key = keyed(&key, part);
    }
    hex::encode(keyed(&key, &to_sign))
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn sha256(text: &str) -> String {
    hex::encode(digest::digest(&digest::SHA256, text.as_bytes()))
}
