<?php
// What an application learns of its client.
header('Content-Type: application/json');
$names = ['REMOTE_ADDR', 'HTTPS', 'REQUEST_SCHEME', 'SERVER_PORT', 'HTTP_HOST', 'REQUEST_METHOD', 'REQUEST_URI',
    'HTTP_X_FORWARDED_FOR', 'HTTP_X_FORWARDED_PROTO', 'HTTP_X_FORWARDED_HOST', 'HTTP_X_REAL_IP'];
echo json_encode(array_intersect_key($_SERVER, array_flip($names)), JSON_UNESCAPED_SLASHES);
