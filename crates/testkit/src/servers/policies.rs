//! Users of a moto server, each with a policy that the server enforces.

use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::installed;

/// Moto is a Python program, whose Python has a client of AWS. The number of requests without permission is that of moto's setting.
const PROGRAM: &str = "\
import sys, urllib.request, boto3
server, policies = sys.argv[1], sys.argv[2:]
names = dict(endpoint_url=server, region_name='us-east-1', aws_access_key_id='AK', aws_secret_access_key='SK')
iam = boto3.client('iam', **names)
for number, policy in enumerate(policies):
    user = f'user-{number}'
    iam.create_user(UserName=user)
    iam.put_user_policy(UserName=user, PolicyName='policy', PolicyDocument=policy)
    key = iam.create_access_key(UserName=user)['AccessKey']
    print(key['AccessKeyId'], key['SecretAccessKey'])
request = urllib.request.Request(server + '/moto-api/reset-auth', data=b'0', headers={'Content-Type': 'text/plain'})
urllib.request.urlopen(request)";

/// Creates a user for each policy, and lets the server enforce policies from now on. Returns the access key and the secret of each.
pub(super) fn restrict(address: SocketAddr, policies: &[&str]) -> io::Result<Vec<(String, String)>> {
    let python = installed::of_tests("python").map_err(io::Error::other)?;
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, &format!("http://{address}")]).args(policies).current_dir("/");
    // The user's own files of AWS have no say here.
    command.env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_CONFIG_FILE", "/dev/null");
    let output = command.env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null").output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let keys = text.lines().filter_map(|line| line.split_once(' '));
    Ok(keys.map(|(key, secret)| (key.to_owned(), secret.to_owned())).collect())
}
