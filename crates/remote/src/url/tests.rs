//! URLs: what each scheme accepts, and that no output shows a password.

use super::*;

fn redis_url(text: &str) -> RedisUrl {
    match text.parse() {
        Ok(RemoteUrl::Redis(url)) => url,
        other => panic!("{text}: {other:?}"),
    }
}

fn s3_url(text: &str) -> S3Url {
    match text.parse() {
        Ok(RemoteUrl::S3(url)) => url,
        other => panic!("{text}: {other:?}"),
    }
}

fn error(text: &str) -> UrlError {
    text.parse::<RemoteUrl>().expect_err(text)
}

#[test]
fn a_redis_url_has_credentials_a_database_and_a_prefix() {
    let plain = redis_url("redis://cache.example");
    assert_eq!((plain.tls, plain.host.to_string().as_str()), (false, "cache.example:6379"));
    assert_eq!((plain.user, plain.password, plain.database), (None, None, 0));
    assert_eq!(plain.prefix.as_str(), "opkeep");
    let full = redis_url("rediss://us%40er:p%2Fa@ss:w@[::1]:7000/3/?prefix=team/a");
    assert_eq!((full.tls, full.host.to_string().as_str()), (true, "[::1]:7000"));
    assert_eq!(full.user.as_deref(), Some("us@er"));
    assert_eq!(full.password.as_ref().map(Secret::reveal), Some("p/a@ss:w"));
    assert_eq!((full.database, full.prefix.as_str()), (3, "team/a"));
    assert_eq!(RemoteUrl::Redis(full).to_string(), "rediss://[::1]:7000/3?prefix=team/a");
    let password_only = redis_url("REDIS://:secret@h:1");
    assert_eq!(
        (password_only.user, password_only.password.map(|it| it.reveal().to_owned())),
        (None, Some("secret".into()))
    );
}

#[test]
fn an_s3_url_has_a_bucket_and_an_endpoint() {
    let aws = s3_url("s3://kernels");
    assert_eq!((aws.bucket.as_str(), aws.prefix, aws.endpoint), ("kernels", None, None));
    let url =
        s3_url("s3://kernels/team/a/?endpoint=http://10.0.0.1:9000/&region=eu-1&style=virtual&profile=ci");
    assert_eq!(url.prefix.as_ref().map(ObjectName::as_str), Some("team/a"));
    assert_eq!(url.endpoint.as_ref().map(ToString::to_string).as_deref(), Some("http://10.0.0.1:9000"));
    assert_eq!(
        (url.region.as_deref(), url.style, url.profile.as_deref()),
        (Some("eu-1"), Some(S3Style::Virtual), Some("ci"))
    );
    assert_eq!(RemoteUrl::S3(url).to_string(), "s3://kernels/team/a?endpoint=http://10.0.0.1:9000");
    let encoded = s3_url("s3://kernels?endpoint=https%3A%2F%2Fs3.example");
    assert_eq!(
        encoded.endpoint.map(|endpoint| endpoint.to_string()).as_deref(),
        Some("https://s3.example:443")
    );
}

#[test]
fn a_grpc_url_has_an_instance_and_a_file_url_a_directory() {
    let Ok(RemoteUrl::Reapi(url)) = "grpcs://h:8980/a/b".parse() else { panic!() };
    assert_eq!((url.tls, url.host.port, url.instance.as_str()), (true, 8980, "a/b"));
    for (text, directory) in [("file:///a/b%20c", "/a/b c"), ("file://localhost/a/", "/a")] {
        let Ok(RemoteUrl::File(url)) = text.parse() else { panic!("{text}") };
        assert_eq!(url.directory, PathBuf::from(directory));
    }
}

#[test]
fn a_wrong_part_is_named() {
    let part = |text: &str| match error(text) {
        UrlError::Invalid { part, .. } => part.to_owned(),
        UrlError::UnknownParameter { name, .. } => format!("parameter {name}"),
        UrlError::UnknownScheme { scheme } => format!("scheme {scheme}"),
        UrlError::NoScheme => "no scheme".to_owned(),
    };
    for (text, expected) in [
        ("", "no scheme"),
        ("/tmp/x", "no scheme"),
        ("host:6379", "no scheme"),
        ("http://h", "scheme http"),
        ("redis://", "host"),
        ("redis://h h", "host"),
        ("redis://[::1", "host"),
        ("redis://[zz]", "host"),
        ("redis://[::1]x", "host"),
        ("redis://ä", "host"),
        ("redis://h:0", "port"),
        ("redis://h:65536", "port"),
        ("redis://h:+1", "port"),
        ("redis://h:", "port"),
        ("redis://user@h", "password"),
        ("redis://h/x", "path"),
        ("redis://h/0/x", "path"),
        ("redis://h/99999999999", "database"),
        ("redis://h?prefix=../x", "prefix"),
        ("redis://h?prefix=", "prefix"),
        ("redis://h?prefix=a&prefix", "prefix"),
        ("redis://h?db=1", "parameter db"),
        ("redis://:%zz@h", "password"),
        ("redis://:%ff@h", "password"),
        ("redis://h#x", "text after the host"),
        ("s3://k:s@bucket", "user"),
        ("s3://No_Bucket", "bucket"),
        ("s3://ab", "bucket"),
        ("s3://bucket/a//b", "prefix"),
        ("s3://bucket?endpoint=h:1", "endpoint"),
        ("s3://bucket?endpoint=http://h/path", "endpoint"),
        ("s3://bucket?style=dns", "style"),
        ("s3://bucket?endpoint=", "endpoint"),
        ("s3://bucket?region=", "region"),
        ("s3://bucket?style=", "style"),
        ("s3://bucket?profile=", "profile"),
        ("grpc://h", "port"),
        ("grpc://h:1/a b", "instance"),
        ("grpc://h:1/a/blobs/b", "instance"),
        ("file://h/a", "host"),
        ("file:///", "path"),
        ("file:///a/../b", "path"),
        ("file:///a%00", "path"),
    ] {
        assert_eq!(part(text), expected, "{text}");
    }
}

/// Errors of passwords that are not encoded, or not followed by a host, show nothing of them.
#[test]
fn no_output_shows_a_password() {
    for text in [
        "redis://:hunter2@",
        "redis://:hunter2",
        "redis://u:hunter2:h",
        "redis://u:hun/hunter2@h",
        "redis://u:hun?hunter2@h",
        "redis://u:hun#hunter2@h",
        "redis://u:hunter2%zz@h",
        "redis://u:hunter2@h:port",
        "redis://u:hunter2@h/db",
        "redis://u:hunter2@h?password=hunter2",
        "s3://key:hunter2@bucket",
        "s3://bucket?endpoint=http://key:hunter2@h",
        "grpc://u:hunter2@h:1",
        "u:hunter2@h",
        "u:hunter2://x",
    ] {
        let error = error(text);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}: {error}");
    }
    let url = RemoteUrl::Redis(redis_url("redis://user:hunter2@h"));
    assert!(!format!("{url} {url:?}").contains("hunter2"));
    assert!(!url.to_string().contains("user"));
}
