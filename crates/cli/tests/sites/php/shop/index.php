<?php
echo 'shop';
