<?php
// Keeps the name of a form in a session, and sends the client to a page by its whole address.
session_set_cookie_params(['secure' => true, 'httponly' => true, 'samesite' => 'Lax']);
session_start();
$_SESSION['name'] = $_POST['name'];
$scheme = $_SERVER['HTTPS'] === 'on' ? 'https' : 'http';
header("Location: $scheme://{$_SERVER['HTTP_HOST']}/account.php", true, 303);
