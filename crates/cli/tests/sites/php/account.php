<?php
session_start();
http_response_code(isset($_SESSION['name']) ? 200 : 401);
echo $_SESSION['name'] ?? 'nobody';
