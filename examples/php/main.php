<?php
echo "hello from PHP\n";
