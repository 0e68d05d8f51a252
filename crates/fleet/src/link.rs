//! A connection to a store, or to a cluster of them.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};

/// Groups that a cluster's nodes answer at a time.
const AT_A_TIME: usize = 64;

/// A connection that many use at a time. Its clones are the same one.
#[derive(Clone)]
pub(crate) enum Link {
    /// To one store.
    Single(MultiplexedConnection),
    /// To the nodes of a cluster.
    Cluster(Arc<ClusterConnection>),
}

impl Link {
    /// Runs groups of commands, each about one key at most, and gives the answers, groupwise. An error of a
    /// command is one of the values.
    pub(crate) async fn run(&self, groups: Vec<Vec<Cmd>>) -> RedisResult<Vec<Vec<Value>>> {
        match self {
            Self::Single(connection) => {
                let lengths: Vec<usize> = groups.iter().map(Vec::len).collect();
                let commands = groups.into_iter().flatten();
                let mut values = pipelined(connection.clone(), commands).await?.into_iter();
                let of_group = |length| values.by_ref().take(length).collect();
                Ok(lengths.into_iter().map(of_group).collect())
            }
            // A pipeline goes to one node, so each group is one of its own.
            Self::Cluster(connection) => {
                let connection: &ClusterConnection = connection;
                let group = |group| pipelined_by_node(connection.clone(), group);
                let answers = stream::iter(groups).map(group).buffered(AT_A_TIME);
                answers.try_collect().await
            }
        }
    }
}

async fn pipelined(
    mut connection: impl ConnectionLike,
    commands: impl IntoIterator<Item = Cmd>,
) -> RedisResult<Vec<Value>> {
    let mut pipeline = Pipeline::new();
    let mut count = 0;
    for command in commands {
        pipeline.add_command(command);
        count += 1;
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    connection.req_packed_commands(&pipeline, 0, count).await
}

/// Commands without a key are routed only one by one.
async fn pipelined_by_node(
    mut connection: ClusterConnection,
    mut group: Vec<Cmd>,
) -> RedisResult<Vec<Value>> {
    match group.as_mut_slice() {
        [command] => Ok(vec![connection.req_packed_command(command).await?]),
        _ => pipelined(connection, group).await,
    }
}

/// The bytes of a text.
pub(crate) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// A number, also as a text.
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        other => std::str::from_utf8(bytes(other)?).ok()?.parse().ok(),
    }
}

/// The elements of a list.
pub(crate) fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        _ => &[],
    }
}

/// Names and values of a hash.
pub(crate) fn pairs(value: &Value) -> Vec<(&[u8], &[u8])> {
    match value {
        Value::Map(pairs) => pairs
            .iter()
            .filter_map(|(name, value)| Some((bytes(name)?, bytes(value)?)))
            .collect(),
        other => list(other)
            .chunks_exact(2)
            .filter_map(|pair| Some((bytes(&pair[0])?, bytes(&pair[1])?)))
            .collect(),
    }
}
