<?php
// Tells the name, the size and the hash of a file of a form.
$file = $_FILES['file'] ?? null;
if ($file === null || $file['error'] !== UPLOAD_ERR_OK) {
    http_response_code(400);
    exit('no file');
}
echo $file['name'], ' ', $file['size'], ' ', hash_file('sha256', $file['tmp_name']);
