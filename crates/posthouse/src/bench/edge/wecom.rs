//! Cases of `bench edge` for WeCom: a sealed message to an application, and one to an AI bot.

use aws_lc_rs::cipher::{AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::digest;
use aws_lc_rs::iv::FixedLength;
use axum::body::Bytes;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use edge::wecom::{WeCom, WeComProduct};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::json;

use super::cases::{Delivered, EdgeCase, bot, webhook};

/// Recorded envelopes: `vectors/platforms/verify_wecom.json`.
const RECORDED: &str = include_str!("../../../../../vectors/platforms/verify_wecom.json");

pub fn cases() -> Vec<EdgeCase> {
    [
        case("app callback", "text message", WeComProduct::App),
        case("ai bot callback", "ai bot json body with empty receive id", WeComProduct::AiBot),
    ]
    .into()
}

/// A recorded message with everything that proves it.
fn case(name: &'static str, recorded: &str, product: WeComProduct) -> EdgeCase {
    let file: serde_json::Value = serde_json::from_str(RECORDED).expect("the vectors are JSON");
    let config = |name: &str| file["config"][name].as_str().unwrap_or_default().to_owned();
    let cases = file["cases"].as_array().map(Vec::as_slice).unwrap_or_default();
    let request = cases.iter().find(|case| case["name"] == recorded).map(|case| &case["request"]);
    let request = request.expect("the vectors hold this case");
    let body = request["body_text"].as_str().unwrap_or_default().to_owned();
    let query = request["url"].as_str().and_then(|url| url.split_once('?')).map_or("", |(_, query)| query);

    let (platform, settings) = match product {
        WeComProduct::App => ("wecom_callback", json!({ "corp_id": config("receive_id") })),
        WeComProduct::AiBot => ("wecom", json!({})),
    };
    let mut bot = bot(platform, "bench", settings);
    for name in ["token", "encoding_aes_key"] {
        bot.credentials.insert(name, Secret::new(config(name)));
    }
    let mut delivered = webhook("", &[], &Bytes::from(body.clone()));
    delivered.query = query.to_owned();

    let (before, after) = match product {
        WeComProduct::App => ("<Encrypt><![CDATA[", "]]>"),
        WeComProduct::AiBot => ("\"encrypt\":\"", "\""),
    };
    let sealed = body.split_once(before).and_then(|(_, rest)| rest.split_once(after));
    let sealed = sealed.map(|(sealed, _)| sealed.to_owned()).unwrap_or_default();
    let hidden = BASE64_STANDARD.decode(&sealed).unwrap_or_default();
    let key = BASE64_STANDARD.decode(format!("{}=", config("encoding_aes_key"))).unwrap_or_default();
    let decrypt = move |bytes: &mut Vec<u8>| {
        let iv: [u8; 16] = key.get(..16)?.try_into().ok()?;
        let cipher = DecryptingKey::cbc(UnboundCipherKey::new(&AES_256, &key).ok()?).ok()?;
        cipher.decrypt(bytes, DecryptionContext::Iv128(FixedLength::from(iv))).ok().map(|text| text.len())
    };
    let mut plain = hidden.clone();
    let length = decrypt(&mut plain).unwrap_or_default();
    // The same text as JSON, because the comparison is with JSON.
    let json = json!({ "message": String::from_utf8_lossy(&plain[..length]) }).to_string();
    let signed = [config("token"), "1765000000".to_owned(), "1597212914".to_owned(), sealed].concat();
    EdgeCase {
        name,
        platform: Box::new(WeCom::new(product, WeCom::API_BASE, WeCom::SOCKET_URL, Timepiece::wall())),
        bot,
        delivered: Delivered::Webhook(delivered),
        json: Bytes::from(json),
        bare_proof: Box::new(move || {
            let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, signed.as_bytes());
            hash.as_ref().len() == 20 && decrypt(&mut hidden.clone()).is_some()
        }),
    }
}
