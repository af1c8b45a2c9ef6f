import sys, urllib.request
reply = urllib.request.urlopen(sys.argv[1] + '/report_asset_observation/urllib/empty?data_version=v1', data=b'')
print(reply.status, reply.read().decode(), end='')
