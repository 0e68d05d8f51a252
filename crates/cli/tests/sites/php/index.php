<?php
// The front controller: pages of a blog, by their path.
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($path !== '/') {
    http_response_code(404);
}
header('Content-Type: text/html; charset=utf-8');
echo '<!doctype html><title>', htmlspecialchars($path), '</title>';
echo str_repeat('<p>words of a page</p>', 200);
